"""Time and memory of one training step: a roofline over the operators of a task's graph.

    t(op)   = max(launch, latency + max(b · flops / rate, (b · bytes + weights) / bandwidth))
    step    = forward + backward + optimizer + exposed all-reduce, or the input pipeline if that is slower

A task's batch is split over a cluster's accelerators (synchronous data parallelism). What favours one
cluster for one task and another for the next is physical: memory size and bandwidth, which precisions
have fast units, launch-bound small batches, gradients over slow links, images that hosts must decode.
The efficiencies are typical fractions of the peak, assumed here and not fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mfcp.emulator.hardware import peak_rates

Floats = NDArray[np.float64]

# (vector units, tensor units, CPU): fraction of the peak that long products reach.
CONVOLUTION_EFFICIENCY = (0.65, 0.45, 0.45)
MATMUL_EFFICIENCY = (0.75, 0.60, 0.60)
# Products over `r` terms reach r / (r + half): depthwise and grouped convolutions keep few lanes busy.
HALF_REDUCTION = (12.0, 64.0, 16.0)
BANDWIDTH_EFFICIENCY = 0.75
OVERLAP = 0.7  # share of the backward pass behind which gradients travel
EXPOSED = 0.1  # share of the all-reduce that nothing hides
LOOP_S = 1.5e-3  # Python, data loader and optimizer overhead of one step
MESSAGE_S = 40e-6  # latency of one all-reduce bucket per doubling of accelerators
BUCKET_BYTES = 25e6
RUNTIME_BYTES = 1.0e9  # context, kernels and workspace
KEPT_ACTIVATIONS = 0.8  # share of operator outputs that autograd keeps

_MATRIX = frozenset({"addmm", "mm", "bmm", "baddbmm"})
_FULL_PRECISION = frozenset(
    {"native_layer_norm", "native_group_norm", "_softmax", "_safe_softmax", "_log_softmax", "pow"}
)
_DECODE_S = {32: 1.0e-4, 224: 6.0e-3}  # core seconds to read, decode and augment one image
_TOKEN_S = 1.5e-6  # core seconds per token read and batched


@dataclass(frozen=True)
class Workload:
    """The operators of a list of tasks, laid end to end; every array is per operator unless said."""

    starts: NDArray[np.int64]  # (n,) first operator of each task
    task: NDArray[np.int64]
    flops: Floats
    bytes: Floats  # read and written, per sample, in FP32
    weights: Floats  # parameter elements read
    reduction: Floats  # terms of a product per output element
    is_convolution: NDArray[np.bool_]
    is_matrix: NDArray[np.bool_]  # convolutions and matrix products
    is_full_precision: NDArray[np.bool_]  # stays in FP32 under mixed precision
    params: Floats  # (n,) elements
    kept: Floats  # (n,) bytes of activations that a training step keeps, per sample, in FP32

    @classmethod
    def of(cls, tasks: pd.DataFrame, nodes: pd.DataFrame) -> Workload:
        """The workload of `tasks` (n rows) whose `graph_id` all occur in `nodes`, contiguous per graph."""
        spans = nodes.groupby("graph_id", sort=False).indices
        rows = [spans[graph] for graph in tasks["graph_id"]]
        sizes = np.array([len(row) for row in rows])
        table = nodes.iloc[np.concatenate(rows)]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        operator, flops = table["op"].to_numpy(str), table["flops"].to_numpy(np.float64)
        written = table["bytes_written"].to_numpy(np.float64)
        params = table["param_count"].to_numpy(np.float64)
        return cls(
            starts=starts,
            task=np.repeat(np.arange(len(rows)), sizes),
            flops=flops,
            bytes=table["bytes_read"].to_numpy(np.float64) + written,
            weights=np.where(operator == "embedding", 0.0, params),  # only the rows of its tokens are read
            reduction=flops / (2 * np.maximum(table["output_numel"].to_numpy(np.float64), 1)),
            is_convolution=operator == "convolution",
            is_matrix=np.isin(operator, [*_MATRIX, "convolution"]),
            is_full_precision=np.isin(operator, list(_FULL_PRECISION)),
            params=np.add.reduceat(params, starts),
            kept=KEPT_ACTIVATIONS * np.add.reduceat(written, starts),
        )


@dataclass(frozen=True)
class Steps:
    """Seconds per step and accelerator memory of every task on every cluster, (n, M)."""

    seconds: Floats
    footprint: Floats  # bytes on one accelerator


def training_steps(tasks: pd.DataFrame, workload: Workload, platform: pd.DataFrame) -> Steps:
    """Step time and memory footprint of `tasks` on the clusters of `platform`.

    Args:
        tasks: n rows with batch_size, precision, input_size, domain, state_bytes.
        workload: their operators.
        platform: M clusters as `hardware.clusters` gives them.
    """
    batch = tasks["batch_size"].to_numpy(np.float64)[:, None]
    count = platform["accelerator_count"].to_numpy(np.float64)
    local = np.ceil(batch / count)
    mixed = (tasks["precision"] != "fp32").to_numpy()[:, None]
    forward, backward = _passes(tasks["precision"].to_numpy(str), local, workload, platform)
    params = workload.params[:, None]
    state = tasks["state_bytes"].to_numpy(np.float64)[:, None]
    bandwidth = BANDWIDTH_EFFICIENCY * platform["memory_bandwidth"].to_numpy(np.float64)
    optimizer = params * (12 + 2 * state + 6 * mixed) / bandwidth
    message = (
        2 * (count - 1) / count * 4 * params / platform["interconnect_bandwidth"].fillna(np.inf).to_numpy(np.float64)
    )
    message += np.ceil(4 * params / BUCKET_BYTES) * MESSAGE_S * np.log2(count)
    exposed = np.maximum(message - OVERLAP * backward, EXPOSED * message)
    device = forward + backward + optimizer + exposed + LOOP_S
    host = batch * _host_seconds(tasks)[:, None] / platform["host_cores"].to_numpy(np.float64)
    activations = local * workload.kept[:, None] * np.where(mixed, 0.6, 1.0)
    footprint = RUNTIME_BYTES + params * (8 + state + 2 * mixed) + activations
    return Steps(np.maximum(device, host), footprint)


def _passes(
    precision: NDArray[np.str_], local: Floats, work: Workload, platform: pd.DataFrame
) -> tuple[Floats, Floats]:
    """Seconds of the forward and of the backward pass, (n, M) each.

    A matrix operator runs twice more in the backward pass (gradients of input and weight), any other
    once, with half as much traffic again.
    """
    forward = np.empty(local.shape)
    backward = np.empty(local.shape)
    figures = platform[["software_efficiency", "memory_bandwidth", "launch_s", "latency_s"]].to_numpy(np.float64)
    for i, (software, memory_bandwidth, launch, latency) in enumerate(figures):
        rate, scale = _rates(precision, work, platform.iloc[[i]], platform["kind"].iloc[i] == "cpu")
        bandwidth = BANDWIDTH_EFFICIENCY * software * memory_bandwidth
        samples = local[work.task, i]
        compute = samples * work.flops / (software * rate)
        traffic = scale * (samples * work.bytes + 4 * work.weights) / bandwidth
        once = np.maximum(launch, latency + np.maximum(compute, traffic))
        again = np.where(work.is_matrix, 2 * once, np.maximum(launch, latency + 1.5 * traffic))
        forward[:, i] = np.add.reduceat(once, work.starts)
        backward[:, i] = np.add.reduceat(again, work.starts)
    return forward, backward


def _rates(precision: NDArray[np.str_], work: Workload, cluster: pd.DataFrame, is_cpu: bool) -> tuple[Floats, Floats]:
    """Attained FLOP/s before software, and bytes per FP32 byte, of every operator on one cluster."""
    rate = np.empty(len(work.task))
    scale = np.ones(len(work.task))
    for name in np.unique(precision):
        mine = (precision == name)[work.task]
        for is_convolution, efficiency in ((True, CONVOLUTION_EFFICIENCY), (False, MATMUL_EFFICIENCY)):
            peak = peak_rates(cluster, str(name), is_convolution)[0]
            has_unit = peak > float(cluster["peak_fp32"].iloc[0])
            unit = 2 if is_cpu else int(has_unit)
            chosen = mine & (work.is_convolution == is_convolution)
            busy = work.reduction[chosen] / (work.reduction[chosen] + HALF_REDUCTION[unit])
            rate[chosen] = peak * efficiency[unit] * np.maximum(busy, 1e-3)
            if has_unit and name != "fp32":
                scale[chosen & ~work.is_full_precision] = 0.5
    return rate, scale


def _host_seconds(tasks: pd.DataFrame) -> Floats:
    size = tasks["input_size"].to_numpy(np.int64)
    images = np.array([_DECODE_S.get(int(side), 0.0) for side in size])
    return np.where(tasks["domain"].to_numpy(str) == "cv", images, _TOKEN_S * size)

"""Time and memory of one training step on every cluster, from a task's operators and published figures.

    step = max(device + exposed all-reduce, input pipeline)

`mfcp.emulator.efficiency` defines `device`. A task's batch is split over a cluster's accelerators (synchronous
data parallelism). What favours one cluster for one task and another for the next is physical: memory size and
bandwidth, which precisions have fast units, launch-bound small batches, gradients over slow links, images that hosts
must decode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats
from mfcp.emulator import hardware
from mfcp.emulator.efficiency import Efficiency, step_parts
from mfcp.tasks.graphs.distinct import DistinctOperators
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.graphs.operators import CLASS_NAMES

OVERLAP = 0.5  # share of a step behind which gradients may travel: the backward pass without its first bucket
MESSAGE_S = 40e-6  # latency of one all-reduce bucket per doubling of accelerators, an assumption
BUCKET_BYTES = 25e6  # PyTorch's default
LINK_EFFICIENCY = 0.7  # of a link's published rate that an all-reduce reaches, an assumption
RUNTIME_BYTES = 1.0e9  # context, kernels and workspace, an assumption
KEPT_ACTIVATIONS = 0.9  # share of operator outputs that autograd keeps, benchmarks/emulator.py
# Core seconds to read, decode and augment one image of a side, and one token, benchmarks/emulator.py.
DECODE_S = {32: 6.0e-5, 224: 5.5e-3}
TOKEN_S = 6.0e-8

_CONVOLUTIONS = [CLASS_NAMES.index(name) for name in ("convolution", "thin_convolution")]


@dataclass(frozen=True)
class Workload:
    """The operators of n tasks, and what their models hold; arrays are per task."""

    operators: DistinctOperators
    params: Floats  # elements
    written: Floats  # bytes that operators write for every sample, in FP32

    @classmethod
    def of(cls, tasks: pd.DataFrame, graphs: OperatorGraphs) -> Workload:
        """The workload of `tasks` (n rows) whose `graph_id` all occur in `graphs`."""
        at = graphs.positions(tasks["graph_id"].to_numpy(str))
        size = len(graphs.graph_id)
        return cls(
            operators=graphs.distinct.take(at),
            params=np.bincount(graphs.graph, graphs.params, size)[at].astype(np.float64),
            written=np.bincount(graphs.graph, graphs.written * ~graphs.once, size)[at].astype(np.float64),
        )


@dataclass(frozen=True)
class Steps:
    """Seconds per step and accelerator memory of every task on every cluster, (n, M)."""

    seconds: Floats
    footprint: Floats  # bytes on one accelerator


def training_steps(
    tasks: pd.DataFrame, workload: Workload, platform: pd.DataFrame, efficiencies: dict[str, Efficiency]
) -> Steps:
    """Step time and memory footprint of `tasks` on the clusters of `platform`.

    Args:
        tasks: n rows with batch_size, precision, input_size, domain, state_bytes.
        workload: their operators.
        platform: M clusters as `hardware.clusters` gives them.
        efficiencies: of an accelerator by its name, else of its kind of hardware.
    """
    batch = tasks["batch_size"].to_numpy(np.float64)[:, None]
    count = platform["accelerator_count"].to_numpy(np.float64)
    local = np.ceil(batch / count)
    mixed = (tasks["precision"] != "fp32").to_numpy()[:, None]
    params, state = workload.params[:, None], tasks["state_bytes"].to_numpy(np.float64)[:, None]
    device = _device(tasks, workload, platform, efficiencies, local, optimizer_bytes(params, state, mixed)[:, 0])
    link = LINK_EFFICIENCY * platform["interconnect_bandwidth"].fillna(np.inf).to_numpy(np.float64)
    message = 2 * (count - 1) / count * 4 * params / link
    message += np.ceil(4 * params / BUCKET_BYTES) * MESSAGE_S * np.log2(count)
    host = batch * _host_seconds(tasks)[:, None] / platform["host_cores"].to_numpy(np.float64)
    footprint = training_bytes(params, state, workload.written[:, None], local, mixed)
    return Steps(np.maximum(device + np.maximum(message - OVERLAP * device, 0.0), host), footprint)


def optimizer_bytes(params: Floats, state: Floats, mixed: Bools) -> Floats:
    """Bytes that a step of the optimizer moves: weights, gradients and state read, weights and state written.

    Args:
        params: elements.
        state: bytes of optimizer state per parameter.
        mixed: precision: half copies of weights and gradients, too.
    """
    result: Floats = params * (12 + 2 * state + 6 * mixed)
    return result


def training_bytes(params: Floats, state: Floats, written: Floats, batch: Floats, mixed: Bools | bool) -> Floats:
    """Bytes of one accelerator in training: weights, gradients, optimizer state and kept activations.

    Args:
        params: elements.
        state: bytes of optimizer state per parameter.
        written: bytes that the forward operators write, per sample, in FP32.
        batch: samples on this accelerator.
        mixed: precision: a second copy of the weights, and activations of half the size.
    """
    activations = batch * KEPT_ACTIVATIONS * written * np.where(mixed, 0.5, 1.0)
    result: Floats = RUNTIME_BYTES + params * (8 + state + np.where(mixed, 2, 0)) + activations
    return result


def _device(
    tasks: pd.DataFrame,
    workload: Workload,
    platform: pd.DataFrame,
    efficiencies: dict[str, Efficiency],
    local: Floats,
    moved: Floats,
) -> Floats:
    """(n, M) seconds of forward, backward and optimizer, which moves `moved` (n,) bytes, on one accelerator of each."""
    seconds = np.empty(local.shape)
    precisions = tasks["precision"].to_numpy(str)
    for precision in map(str, np.unique(precisions)):
        mine = np.flatnonzero(precisions == precision)
        operators = workload.operators.take(mine)
        is_convolution = np.isin(operators.kind, _CONVOLUTIONS)
        for i in range(len(platform)):
            cluster = platform.iloc[[i]]
            unit = hardware.unit(cluster, precision)
            product, convolution = (hardware.peak_rates(cluster, precision, which)[0] for which in (False, True))
            peak = np.where(is_convolution, convolution, product)
            bandwidth = float(cluster["memory_bandwidth"].iloc[0])
            own = efficiencies.get(str(cluster["accelerator"].iloc[0]), efficiencies[unit.kind])
            parts = step_parts(operators, peak, bandwidth, unit.element_bytes, local[mine, i], moved[mine])
            seconds[mine, i] = own.seconds(parts)
    return seconds


def _host_seconds(tasks: pd.DataFrame) -> Floats:
    size = tasks["input_size"].to_numpy(np.int64)
    images = np.array([DECODE_S.get(int(side), 0.0) for side in size])
    return np.where(tasks["domain"].to_numpy(str) == "cv", images, TOKEN_S * size)

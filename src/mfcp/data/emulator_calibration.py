"""Efficiencies from a log's own step times: fitted per cluster on some model families, judged on others.

A log with operator graphs, batch sizes and step times says how much of its published figures an accelerator reaches.
`calibrate` fits that for every cluster and phase, first without a fifth of the families at a time, to say how far
emulated times are from measured ones of models that it was not fitted to, then with all of them. Pairs of tasks that
ran side by side (table `colocation`) give zeta.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats, Texts
from mfcp.data.log.schema import SUCCEEDED
from mfcp.data.pool.run_totals import batch_sizes, floats
from mfcp.data.pool.splits import family_of
from mfcp.emulator.architectures import STATE_BYTES
from mfcp.emulator.efficiency import Efficiency, nominal, step_parts
from mfcp.emulator.step import optimizer_bytes
from mfcp.errors import DataError
from mfcp.folds import group_folds
from mfcp.matching.speedup import SpeedUp
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs, build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES

WORK_SD, LAUNCH_SD = 1.0, 0.5
"""How far log efficiencies and log launches are expected to be from their start; chosen on families of seed 1000."""
BACKWARD = 2.0
"""A backward pass costs about two forward ones: where the fit of a training log starts."""
DECAY = 2.0
"""Tasks over which the gain builds up: the curve's default, held where only pairs are measured."""
LEAST_TASKS = 5


@dataclass(frozen=True)
class StepLog:
    """Measured steps of one cluster in one phase: n tasks with a graph.

    Args:
        cluster_id, accelerator, phase: what ran where.
        parts: (n, 2C + 2), see `step_parts`.
        seconds: (n,) mean over succeeded runs.
        families: (n,) model family.
        task_id: (n,) names.
    """

    cluster_id: str
    accelerator: str
    phase: str
    parts: Floats
    seconds: Floats
    families: Texts
    task_id: Texts

    @property
    def start(self) -> Efficiency:
        """Before any measurement."""
        return nominal(BACKWARD if self.phase == "train" else 0.0)

    def fit(self, tasks: Bools | slice = slice(None)) -> Efficiency:
        """Efficiency of this cluster from some of its tasks."""
        return Efficiency.fit(self.parts[tasks], self.seconds[tasks], self.start, work_sd=WORK_SD, launch_sd=LAUNCH_SD)

    def unseen(self, folds: int, seed: int) -> Floats:
        """(n,) seconds of each task by a fit without its family; nan where the log has fewer families than two."""
        names = np.unique(self.families)
        if len(names) < 2:
            return np.full(len(self.seconds), np.nan)
        fold = group_folds(self.families, min(folds, len(names)), np.random.default_rng(seed))
        predicted = np.empty(len(self.seconds))
        for k in np.unique(fold):
            predicted[fold == k] = self.fit(fold != k).seconds(self.parts[fold == k])
        return predicted


@dataclass(frozen=True)
class Calibrated:
    """One cluster's efficiency in one phase, and how it did on unseen families: MAPE as a share, R² of log seconds."""

    log: StepLog
    efficiency: Efficiency
    unseen: Floats
    mape: float
    r2: float


def step_logs(tables: Mapping[str, pd.DataFrame]) -> list[StepLog]:
    """The measured steps of every cluster and phase of a log that has operator graphs.

    Tasks of several precisions share a fit, each with the size of its own activations: the log has one peak rate a
    cluster, and so has its efficiency.

    Args:
        tables: tasks, clusters, runs, nodes and edges in the log schema; runs (or tasks) tell batch sizes.

    Raises:
        DataError: no graphs, or no cluster with its figures and enough timed tasks.
    """
    if "nodes" not in tables or "edges" not in tables:
        raise DataError("calibration needs operator graphs: tables nodes and edges; `mfcp capture` makes them")
    graphs = build_graphs(tables["nodes"], tables["edges"])
    tasks = tables["tasks"].set_index("task_id")
    found = [
        _log(machine, phase, steps, tasks.loc[steps.index], graphs)
        for machine, phase, steps in timed_steps(tables, graphs)
        if len(steps) >= LEAST_TASKS and pd.notna(machine["peak_flops"]) and pd.notna(machine["memory_bandwidth"])
    ]
    if not found:
        raise DataError(
            f"no cluster has peak_flops, memory_bandwidth and {LEAST_TASKS} tasks with a graph, a batch size and a "
            "step time; add the figures of its accelerator or profile more tasks"
        )
    return found


def timed_steps(
    tables: Mapping[str, pd.DataFrame], graphs: OperatorGraphs
) -> Iterator[tuple[dict[Hashable, Any], str, pd.DataFrame]]:
    """Row of table clusters, phase and steps of each cluster and phase of a log that has some.

    Steps are `seconds`, `batch` and `precision` by task_id, means over the succeeded runs of tasks that have a graph,
    a batch size and a step time.
    """
    tasks, runs = tables["tasks"].set_index("task_id"), tables["runs"]
    runs = runs[(runs["status"] == SUCCEEDED) & runs["step_time_s"].notna()]
    task = tasks.reindex(runs["task_id"])
    batch = batch_sizes(runs, floats(task["batch_size"]))
    # A run may tell another precision than its task: the one that it really used.
    precision = (runs if "precision" in runs else task)["precision"].fillna("fp32").to_numpy(str)
    known = graphs.positions(task["graph_id"].fillna("").to_numpy(str)) >= 0
    runs = runs.assign(batch=batch, precision=precision, phase=task["phase"].fillna("train").to_numpy(str))
    runs = runs[known & np.isfinite(batch)]
    for machine in tables["clusters"].to_dict("records"):
        for phase, own in runs[runs["cluster_id"] == machine["cluster_id"]].groupby("phase"):
            yield (
                machine,
                str(phase),
                own.groupby("task_id", sort=False).agg(
                    seconds=("step_time_s", "mean"), batch=("batch", "mean"), precision=("precision", "first")
                ),
            )


def _log(
    machine: dict[Hashable, Any], phase: str, steps: pd.DataFrame, tasks: pd.DataFrame, graphs: OperatorGraphs
) -> StepLog:
    at = graphs.positions(tasks["graph_id"].to_numpy(str))
    half = (steps["precision"] != "fp32").to_numpy(np.bool_)
    params = np.bincount(graphs.graph, graphs.params, len(graphs.graph_id))[at].astype(np.float64)
    optimizer = tasks["optimizer"] if "optimizer" in tasks else pd.Series("sgd", tasks.index)
    state = floats(optimizer.map(STATE_BYTES).fillna(STATE_BYTES["sgd"]))
    moved = optimizer_bytes(params, state, half) if phase == "train" else np.zeros(len(at))
    peak, bandwidth = float(machine["peak_flops"]), float(machine["memory_bandwidth"])
    batch = steps["batch"].to_numpy(np.float64)
    parts = np.empty((len(at), 2 * len(CLASS_NAMES) + 2))
    for element, mine in ((2.0, half), (4.0, ~half)):
        operators = graphs.distinct.take(at[mine])
        parts[mine] = step_parts(operators, peak, bandwidth, element, batch[mine], moved[mine])
    family = tasks["model"].map(family_of, na_action="ignore")
    if "family" in tasks:
        family = tasks["family"].fillna(family)
    return StepLog(
        cluster_id=str(machine["cluster_id"]),
        accelerator=str(machine["accelerator"]),
        phase=phase,
        parts=parts,
        seconds=steps["seconds"].to_numpy(np.float64),
        families=family.fillna(tasks.index.to_series()).to_numpy(str),
        task_id=tasks.index.to_numpy(str),
    )


def calibrate(log: StepLog, *, folds: int = 5, seed: int = 0) -> Calibrated:
    """The efficiency of a cluster from all its tasks, and its errors on families left out in turn."""
    predicted = log.unseen(folds, seed)
    error = np.log(predicted) - np.log(log.seconds)
    r2 = 1 - float(np.mean(error**2)) / float(np.log(log.seconds).var())
    return Calibrated(log, log.fit(), predicted, float(np.abs(np.expm1(error)).mean()), r2)


def multipliers(pairs: pd.DataFrame) -> pd.Series[float]:
    """zeta(2) of every measured pair of a table `colocation`, by cluster_id; pairs that did not run are left out."""
    done = pairs[(pairs[["throughput_a", "throughput_b", "isolated_a", "isolated_b"]] > 0).all(axis=1)]
    speed = done["throughput_a"] / done["isolated_a"] + done["throughput_b"] / done["isolated_b"]
    return pd.Series(1 / speed.to_numpy(np.float64), index=pd.Index(done["cluster_id"].astype(str), name="cluster_id"))


def fit_speedup(pairs: pd.DataFrame) -> tuple[list[str], SpeedUp]:
    """The clusters with measured pairs, and the speed-up curve of each: through the median pair, at the usual decay.

    Raises:
        DataError: no pair was measured.
    """
    found = multipliers(pairs)
    if found.empty:
        raise DataError("colocation: no pair ran to an end with all four throughputs above 0; nothing to fit zeta to")
    median = found.groupby(level=0).median()
    # A pair that slows both down by more than it saves is no reason to believe the same of many.
    floor = np.clip((median - np.exp(-1 / DECAY)) / (1 - np.exp(-1 / DECAY)), 0.05, 1.0)
    return [str(name) for name in median.index], SpeedUp(floor.to_numpy(np.float64), DECAY)

"""From runs to one number a pair: seconds, seconds per sample, and counts of success (contract of the log schema)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.log.schema import SUCCEEDED, UNFINISHED

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.log.tables import Tables


@dataclass(frozen=True)
class Cells:
    """What the runs say about every (cluster, task) pair; M clusters, n tasks of the log.

    Attributes:
        duration: (M, n) mean seconds of succeeded runs, nan where no run tells.
        per_unit: (M, n) mean seconds per sample, or per step for a task whose batch is known nowhere.
        stepwise: (n,) tasks whose unit is a step.
        unit: (n,) samples that a unit counts for: 1, or where it is a step, the median batch of the log's runs.
        finished: (M, n) runs that count for reliability.
        succeeded: (M, n) those that succeeded.
        samples: (n,) what a task processes end to end, from its row or implied by runs that tell both a
            duration and a throughput; nan where the log does not say.
    """

    duration: Floats
    per_unit: Floats
    stepwise: Bools
    unit: Floats
    finished: Ints
    succeeded: Ints
    samples: Floats

    @property
    def reliability(self) -> Floats:
        """(M, n) share of succeeded among finished runs, 0 where none has finished."""
        share: Floats = self.succeeded / np.maximum(self.finished, 1)
        return share


def measure_cells(tables: Tables, pool_size: Floats) -> Cells:
    """Aggregate validated tables.

    Args:
        tables: tasks, clusters and runs.
        pool_size: (M,) accelerators that the logged runs used side by side.
    """
    runs, tasks = tables["runs"], tables["tasks"]
    shape = (len(tables["clusters"]), len(tasks))
    cluster, task = pair_index(tables, runs)
    pair = cluster * shape[1] + task
    good = (runs["status"] == SUCCEEDED).to_numpy()
    finished = ~runs["status"].isin(UNFINISHED).to_numpy()
    duration = np.where(good, floats(runs["duration_s"]), np.nan)
    batch = batch_sizes(runs, floats(tasks["batch_size"])[task])
    measured, is_step = _seconds_per_unit(runs, batch, task, shape[1])
    per_unit = np.where(good, measured, np.nan)
    samples = floats(tasks["samples"])
    implied = _implied(task, duration / per_unit * pool_size[cluster], shape[1])
    return Cells(
        duration=mean_of_pairs(pair, duration, shape),
        per_unit=mean_of_pairs(pair, per_unit, shape),
        stepwise=is_step,
        unit=np.where(is_step, np.nanmedian(batch) if np.isfinite(batch).any() else 1.0, 1.0),
        finished=_count(pair[finished], shape),
        succeeded=_count(pair[good], shape),
        samples=np.where(np.isfinite(samples), samples, implied),
    )


def pair_index(tables: Tables, frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """Positions (cluster, task) in their tables of every row of `frame`."""
    import pandas as pd

    cluster = pd.Index(tables["clusters"]["cluster_id"]).get_indexer(frame["cluster_id"])
    task = pd.Index(tables["tasks"]["task_id"]).get_indexer(frame["task_id"])
    return cluster.astype(np.int64), task.astype(np.int64)


def floats(values: pd.Series[Any]) -> Floats:
    """(rows,) a number column as float64, empty cells as nan."""
    return values.to_numpy(np.float64, na_value=np.nan)


def cluster_effects(T: Floats) -> tuple[Floats, Ints]:
    """(M,) least-squares effect of each cluster on log T, mean 0 in each group, and (M,) the group.

    log T_ij = task_j + cluster_i over known pairs: with the tasks eliminated a Laplacian system in the clusters,
    whose connected components are the groups.
    """
    from scipy.sparse.csgraph import connected_components

    known = np.isfinite(T).astype(np.float64)
    log = np.where(known > 0, np.log(np.where(known > 0, T, 1.0)), 0.0)
    count = np.maximum(known.sum(axis=0), 1.0)
    laplacian = np.diag(known.sum(axis=1)) - (known / count) @ known.T
    right = (log - known * (log.sum(axis=0) / count)).sum(axis=1)
    groups = connected_components(known @ known.T > 0, directed=False)[1].astype(np.int64)
    together = groups[:, None] == groups
    # A constant in each group is what times cannot tell: the mean over the group, added, makes it 0. A pseudo-inverse
    # would have to tell those directions by their eigenvalues, which rounding leaves at 1e-13 of either sign.
    effects: Floats = np.linalg.solve(laplacian + together / together.sum(axis=0), right)
    return effects, groups


def task_effects(T: Floats) -> Floats:
    """(n,) mean log T of each task once the clusters' effects are taken out, nan where nothing is known."""
    known = np.isfinite(T)
    left = np.where(known, np.log(np.where(known, T, 1.0)) - cluster_effects(T)[0][:, None], 0.0)
    count = known.sum(axis=0)
    result: Floats = np.where(count > 0, left.sum(axis=0) / np.maximum(count, 1), np.nan)
    return result


def batch_sizes(runs: pd.DataFrame, of_task: Floats) -> Floats:
    """(runs,) batch size of each run, else that of its task, nan where neither is known.

    Args:
        runs: rows of table runs.
        of_task: (runs,) what the task of each run says.
    """
    batch = floats(runs["batch_size"]) if "batch_size" in runs else np.full(len(runs), np.nan)
    return np.where(np.isfinite(batch), batch, of_task)


def run_spread(tables: Tables, cluster_id: Texts, task_id: Texts) -> tuple[Floats, Ints]:
    """Sum of squared deviations of log time within every pair, and its succeeded runs with a time: each (M, n).

    Of durations where the pair has any, else of seconds per sample or step.

    Args:
        tables: the log.
        cluster_id, task_id: (M,) and (n,) of its clusters and tasks, each once.
    """
    import pandas as pd

    runs, tasks = tables["runs"], tables["tasks"]
    cluster, task = (
        pd.Index(names).get_indexer(pd.Index(runs[column]))
        for names, column in ((cluster_id, "cluster_id"), (task_id, "task_id"))
    )
    use = (cluster >= 0) & (task >= 0) & (runs["status"] == SUCCEEDED).to_numpy()
    runs, cluster, task = runs[use], cluster[use].astype(np.int64), task[use].astype(np.int64)
    shape = (len(cluster_id), len(task_id))
    pair = cluster * shape[1] + task
    at = pd.Index(tasks["task_id"]).get_indexer(pd.Index(runs["task_id"]))
    batch = batch_sizes(runs, floats(tasks["batch_size"])[at])
    unit, _ = _seconds_per_unit(runs, batch, at.astype(np.int64), len(tasks))
    seconds = floats(runs["duration_s"])
    lasts = np.bincount(pair, weights=np.isfinite(seconds), minlength=shape[0] * shape[1]) > 0
    log = np.log(np.where(lasts[pair], seconds, unit))
    known = np.isfinite(log)
    mean = mean_of_pairs(pair[known], log[known], shape).ravel()
    off = log[known] - mean[pair[known]]
    square: Floats = np.bincount(pair[known], off**2, shape[0] * shape[1]).astype(np.float64).reshape(shape)
    return square, _count(pair[known], shape)


def _seconds_per_unit(runs: pd.DataFrame, batch: Floats, task: Ints, count: int) -> tuple[Floats, Bools]:
    """(runs,) seconds per sample, else per step; and (n,) tasks of which no run tells a batch or throughput."""
    rate = floats(runs["samples_per_s"])
    step = floats(runs["step_time_s"])
    per_sample = np.where(rate > 0, 1.0 / np.where(rate > 0, rate, 1.0), step / batch)
    sampled = np.bincount(task, weights=np.isfinite(per_sample), minlength=count) > 0
    return np.where(sampled[task], per_sample, step), ~sampled


def _implied(task: Ints, samples: Floats, count: int) -> Floats:
    """(n,) median over a task's runs of the samples that duration and throughput imply."""
    import pandas as pd

    median = pd.Series(samples).groupby(task).median().reindex(range(count))
    return floats(median)


def mean_of_pairs(pair: Ints, values: Floats, shape: tuple[int, int]) -> Floats:
    """(M, n) means of the known values (rows,) of each pair, given as cluster · n + task; nan where there is none."""
    known = np.isfinite(values)
    total = np.bincount(pair[known], weights=values[known], minlength=shape[0] * shape[1])
    count = np.bincount(pair[known], minlength=shape[0] * shape[1])
    result: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape)
    return result


def _count(pair: Ints, shape: tuple[int, int]) -> Ints:
    return np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)

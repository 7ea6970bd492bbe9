"""From validated log tables to a task pool, with stated stand-ins for what a log does not tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.pool.failures import FailureModel, emulate_failures, memory_pressure
from mfcp.data.pool.samples import LogNormal, SampleCounts
from mfcp.data.pool.splits import family_of
from mfcp.data.pool.task_pool import TaskPool
from mfcp.data.pool.times import Cells, balanced_pools, floats, measure_cells, pair_index
from mfcp.errors import DataError
from mfcp.registry import FamilyField

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

ENOUGH_RUNS = 5
"""Finished runs a pair (median) from which `failures: auto` trusts the log's own shares."""


class PoolSettings(BaseModel):
    """How a pool is made of a log: section `pool` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    samples: FamilyField[SampleCounts] = Field(default=LogNormal(), description="where the log tells none")
    pools: Literal["balanced", "asis"] = Field(default="balanced", description="draw pool sizes, or take the log's")
    failures: Literal["auto", "observed", "emulated", "off"] = Field(
        default="auto", description="source of reliability"
    )
    failure_model: FailureModel = FailureModel()
    replicas: Literal["auto"] | PositiveInt = Field(
        default="auto", description="copies of a task, each with drawn samples"
    )
    replica_target: int = Field(default=200, ge=1, description="tasks that replicas: auto fills a small log up to")
    min_tasks_per_cluster: int = Field(default=15, ge=1, description="different measured tasks that a predictor needs")


@dataclass(frozen=True)
class _Rows:
    """Which clusters, and which tasks in how many copies, enter the pool; all (M',) or (n',)."""

    cluster: Ints
    task: Ints
    copy: Ints
    drawn: Bools  # samples are drawn by the settings

    def names(self, tables: Tables) -> Texts:
        """(n',) unique names: that of the task, numbered from the second copy on."""
        task_id = tables["tasks"]["task_id"].to_numpy(str)[self.task]
        return np.array([t if k == 0 else f"{t}#{k + 1}" for t, k in zip(task_id, self.copy, strict=True)], np.str_)


def build_pool(tables: Tables, settings: PoolSettings, *, seed: int) -> TaskPool:
    """The task pool of validated tables.

    Execution time of a pair: mean `duration_s` of its succeeded runs, else samples / (pool_size · samples_per_s).
    Samples come from the task, else from its runs that tell both a duration and a throughput, else from
    `settings.samples`; a task that has durations but no samples by any of these keeps only the pairs with a duration,
    since emulated work would not compare with measured work.

    Args:
        tables: tasks, clusters, runs and maybe truth, as `validate` returns them.
        settings: what stands in for what the log does not tell.
        seed: of everything drawn.

    Raises:
        DataError: fewer than two clusters have enough tasks.
    """
    sizes = floats(tables["clusters"]["pool_size"])
    logged = np.where(np.isfinite(sizes), sizes, 1.0)
    cells = measure_cells(tables, logged)
    rows, notes = _choose(tables, cells, settings)
    i, j = rows.cluster, rows.task
    T, samples = _times(tables, cells, rows, logged, settings, seed)
    pool_size = balanced_pools(T, logged[i], seed=seed) if settings.pools == "balanced" else logged[i]
    shrink = (logged[i] / pool_size)[:, None]
    T = T * shrink
    truth = _truth(tables, i, j)
    T_true = None if truth is None else np.where(np.isfinite(truth[0]) & ~rows.drawn, truth[0] * shrink, T)
    source = _failure_source(settings, cells, rows, has_truth=truth is not None)
    A, runs, A_true = _reliability(source, settings, tables, cells, rows, T if T_true is None else T_true, seed)
    if source == "observed" and truth is not None:
        A_true = np.where(np.isfinite(truth[1]), truth[1], A)
    emulated = {
        "runs": truth is not None,
        "samples": bool(rows.drawn.any()),
        "pool_size": settings.pools == "balanced",
        "failures": source == "emulated",
    }
    return TaskPool(
        task_id=rows.names(tables),
        family=_families(tables)[j],
        source_task=tables["tasks"]["task_id"].to_numpy(str)[j],
        cluster_id=tables["clusters"]["cluster_id"].to_numpy(str)[i],
        T=T,
        A=A,
        runs=runs,
        allowed=np.isfinite(T),
        samples=samples,
        pool_size=pool_size,
        T_true=T_true,
        A_true=A_true,
        emulated=tuple(name for name, value in emulated.items() if value),
        notes=tuple(notes),
    )


def _times(
    tables: Tables, cells: Cells, rows: _Rows, logged: Floats, settings: PoolSettings, seed: int
) -> tuple[Floats, Floats]:
    """Seconds (M, n) with the logged pools, nan where unknown, and samples (n,) of each task."""
    i, j = rows.cluster, rows.task
    names, flops = tables["tasks"]["task_id"].to_numpy(str)[j], floats(tables["tasks"]["flops"])[j]
    # Measured times are no stand-in for FLOPs that are not told: samples are a feature, and would tell them.
    draw = settings.samples.draw(list(names), list(rows.copy), flops, seed=seed) / cells.unit[j]
    samples = np.where(rows.drawn, draw, cells.samples[j])
    duration = cells.duration[np.ix_(i, j)]
    T = np.where(np.isfinite(duration), duration, samples * cells.per_unit[np.ix_(i, j)] / logged[i, None])
    known = np.isfinite(samples)
    return T, np.where(known, samples, np.median(samples[known]) if known.any() else 1.0)


def _choose(tables: Tables, cells: Cells, settings: PoolSettings) -> tuple[_Rows, list[str]]:
    """Clusters with enough tasks, tasks with a time on one of them, and their copies."""
    timed = np.isfinite(cells.duration).any(axis=0)
    drawn = ~np.isfinite(cells.samples) & ~timed
    usable = np.isfinite(cells.duration) | (np.isfinite(cells.per_unit) & (np.isfinite(cells.samples) | drawn))
    copies = _copies(settings, drawn & usable.any(axis=0), int(usable.any(axis=0).sum()))
    per_cluster = usable.sum(axis=1)  # replicas of a task are one task to learn from
    kept = per_cluster >= settings.min_tasks_per_cluster
    few = [
        f"{name} ({count})"
        for name, count, keep in zip(tables["clusters"]["cluster_id"], per_cluster, kept, strict=True)
        if not keep
    ]
    reason = f"fewer than {settings.min_tasks_per_cluster} tasks with a time (pool.min_tasks_per_cluster)"
    shown = ", ".join(few[:8]) + (", …" if len(few) > 8 else "")
    if kept.sum() < 2:
        raise DataError(
            f"runs: {len(few)} of {len(kept)} clusters have {reason}: {shown}; matching needs 2 clusters: profile "
            "more tasks or lower it"
        )
    notes = [f"{len(few)} of {len(kept)} clusters left out for {reason}: {shown}"] if few else []
    present = usable[kept].any(axis=0)
    if not present.all():
        notes.append(f"{int((~present).sum())} of {len(present)} tasks left out: no time on any cluster of the pool")
    source = np.flatnonzero(present)
    number = np.where(drawn[source], copies, 1)
    task = np.repeat(source, number)
    copy = np.concatenate([np.arange(k) for k in number])
    return _Rows(np.flatnonzero(kept), task, copy, drawn[task]), notes


def _copies(settings: PoolSettings, drawn: Bools, count: int) -> int:
    """Copies of each task whose samples are drawn; measured work is never copied."""
    if not settings.samples.varied or not drawn.any():
        return 1
    if settings.replicas != "auto":
        return settings.replicas
    missing = settings.replica_target - (count - int(drawn.sum()))
    return max(1, math.ceil(missing / int(drawn.sum())))


def _failure_source(settings: PoolSettings, cells: Cells, rows: _Rows, *, has_truth: bool) -> str:
    """Observed, emulated or off; `auto` trusts a log with failures and enough runs a pair."""
    if settings.failures != "auto":
        return settings.failures
    pairs = np.ix_(rows.cluster, rows.task)
    finished, succeeded = cells.finished[pairs], cells.succeeded[pairs]
    tried = finished > 0
    counted = bool((succeeded < finished).any()) and float(np.median(finished[tried])) >= ENOUGH_RUNS
    return "observed" if has_truth or counted else "emulated"


def _reliability(
    source: str, settings: PoolSettings, tables: Tables, cells: Cells, rows: _Rows, T: Floats, seed: int
) -> tuple[Floats, Ints, Floats | None]:
    """Observed shares (M, n), runs behind them (M, n), and probabilities (M, n) where they are emulated."""
    i, j = rows.cluster, rows.task
    if source == "off":
        return np.where(np.isfinite(T), 1.0, np.nan), np.zeros(T.shape, np.int64), None
    if source == "observed":
        runs = cells.finished[np.ix_(i, j)]
        share = np.where(runs > 0, cells.succeeded[np.ix_(i, j)] / np.maximum(runs, 1), np.nan)
        return share, runs, None
    tasks = tables["tasks"]
    pressure = memory_pressure({c: floats(tasks[c])[j] for c in ("param_count", "activations", "batch_size")})
    memory = floats(tables["clusters"]["memory_bytes"])[i]
    emulated = emulate_failures(settings.failure_model, T, pressure, memory, seed=seed)
    return emulated.share, emulated.runs, emulated.probability


def _truth(tables: Tables, i: Ints, j: Ints) -> tuple[Floats, Floats] | None:
    """Expected seconds and reliability (M, n) of table truth, nan where it has no row; None without the table."""
    if "truth" not in tables:
        return None
    truth = tables["truth"]
    cluster, task = pair_index(tables, truth)
    matrices = []
    for column in ("duration_s", "reliability"):
        matrix = np.full((len(tables["clusters"]), len(tables["tasks"])), np.nan)
        matrix[cluster, task] = floats(truth[column])
        matrices.append(matrix[np.ix_(i, j)])
    return matrices[0], matrices[1]


def _families(tables: Tables) -> Texts:
    """(n,) the log's family, else the model's first word, else the task itself."""
    tasks = tables["tasks"]
    from_model = tasks["model"].map(family_of, na_action="ignore")
    result: Texts = tasks["family"].fillna(from_model).fillna(tasks["task_id"]).to_numpy(str)
    return result

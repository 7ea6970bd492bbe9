"""The task pool of an experiment: what was logged, with stated stand-ins for what the log does not tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from mfcp.arrays import Bools, Floats, Ints
from mfcp.data.pool.logged import PoolRows, choose_rows, is_emulated, pool_sizes, truth_of
from mfcp.data.pool.run_totals import floats
from mfcp.data.pool.task_pool import TaskPool
from mfcp.data.pool.times import Cells, measure_cells, or_median
from mfcp.registry import FamilyField
from mfcp.study.invented.failures import FailureModel, emulate_failures, memory_pressure
from mfcp.study.invented.pool_sizes import balanced_pools
from mfcp.study.invented.samples import LogNormal, SampleCounts

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

ENOUGH_RUNS = 5
"""Finished runs a pair (median) from which `failures: auto` trusts the log's own shares."""


class PoolSettings(BaseModel):
    """What an experiment invents where a log does not tell it: section `pool` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    samples: FamilyField[SampleCounts] = Field(default=LogNormal(), description="where the log tells none")
    pools: Literal["auto", "balanced", "asis"] = Field(
        default="auto", description="draw pool sizes, or take the log's; auto draws where no run tells a duration"
    )
    failures: Literal["auto", "observed", "emulated", "off"] = Field(
        default="auto", description="source of reliability"
    )
    failure_model: FailureModel = FailureModel()
    replicas: Literal["auto"] | PositiveInt = Field(
        default="auto", description="copies of a task, each with drawn samples"
    )
    replica_target: int = Field(default=200, ge=1, description="tasks that replicas: auto fills a small log up to")
    min_tasks_per_cluster: Literal["auto"] | PositiveInt = Field(
        default="auto", description="different measured tasks; auto: half of what the best cluster has, 2 to 15"
    )


def build_pool(tables: Tables, settings: PoolSettings, *, seed: int) -> TaskPool:
    """The task pool of an experiment on validated tables; operation has `mfcp.data.pool.logged.logged_pool`.

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
    logged = pool_sizes(tables)
    cells = measure_cells(tables, logged)
    rows, drawn, notes = _choose(tables, cells, settings)
    draws_sizes = settings.pools == "balanced" or (settings.pools == "auto" and not np.isfinite(cells.duration).any())
    i, j = rows.cluster, rows.task
    cells = cells.at(i, j)
    samples = _samples(tables, cells, rows, drawn, settings, seed)
    T = cells.seconds(samples, logged[i])
    pool_size = balanced_pools(T, logged[i], seed=seed) if draws_sizes else logged[i]
    shrink = (logged[i] / pool_size)[:, None]
    T = T * shrink
    truth = truth_of(tables, i, j)
    T_true = None if truth is None else np.where(np.isfinite(truth[0]) & ~drawn, truth[0] * shrink, T)
    source = _failure_source(settings, cells, has_truth=truth is not None)
    A, runs, A_true = _reliability(source, settings, tables, cells, rows, T if T_true is None else T_true, seed)
    if source == "observed" and truth is not None:
        A_true = np.where(np.isfinite(truth[1]), truth[1], A)
    emulated = {
        "runs": is_emulated(tables),
        "samples": bool(drawn.any()),
        "pool_size": draws_sizes,
        "failures": source == "emulated",
    }
    return TaskPool(
        **rows.labels(tables),
        T=T,
        A=A,
        runs=runs,
        allowed=np.isfinite(T),
        samples=or_median(samples),
        pool_size=pool_size,
        T_true=T_true,
        A_true=A_true,
        emulated=tuple(name for name, value in emulated.items() if value),
        notes=tuple(notes),
        reliability_known=source != "off",
    )


def _samples(tables: Tables, cells: Cells, rows: PoolRows, drawn: Bools, settings: PoolSettings, seed: int) -> Floats:
    """(n',) samples, or steps, of each task of the pool; nan where neither the log nor a draw tells."""
    names, flops = (tables["tasks"][name].iloc[rows.task] for name in ("task_id", "flops"))
    # Measured times are no stand-in for FLOPs that are not told: samples are a feature, and would tell them.
    draw = settings.samples.draw(list(names.to_numpy(str)), list(rows.copy), floats(flops), seed=seed) / cells.unit
    result: Floats = np.where(drawn, draw, cells.samples)
    return result


def _choose(tables: Tables, cells: Cells, settings: PoolSettings) -> tuple[PoolRows, Bools, list[str]]:
    """Rows of the pool, (n',) whose samples are drawn, and notes."""
    timed = np.isfinite(cells.duration).any(axis=0)
    drawn = ~np.isfinite(cells.samples) & ~timed
    usable = np.isfinite(cells.duration) | (np.isfinite(cells.per_unit) & (np.isfinite(cells.samples) | drawn))
    copies = _copies(settings, drawn & usable.any(axis=0), int(usable.any(axis=0).sum()))
    least = None if settings.min_tasks_per_cluster == "auto" else settings.min_tasks_per_cluster
    rows, notes = choose_rows(tables, usable, least, np.where(drawn, copies, 1))
    return rows, drawn[rows.task], notes


def _copies(settings: PoolSettings, drawn: Bools, count: int) -> int:
    """Copies of each task whose samples are drawn; measured work is never copied."""
    if not settings.samples.varied or not drawn.any():
        return 1
    if settings.replicas != "auto":
        return settings.replicas
    missing = settings.replica_target - (count - int(drawn.sum()))
    return max(1, math.ceil(missing / int(drawn.sum())))


def _failure_source(settings: PoolSettings, cells: Cells, *, has_truth: bool) -> str:
    """Observed, emulated or off; `auto` trusts a log with failures and enough runs a pair."""
    if settings.failures != "auto":
        return settings.failures
    tried = cells.finished > 0
    failed = bool((cells.succeeded < cells.finished).any())
    counted = failed and float(np.median(cells.finished[tried])) >= ENOUGH_RUNS
    return "observed" if has_truth or counted else "emulated"


def _reliability(
    source: str, settings: PoolSettings, tables: Tables, cells: Cells, rows: PoolRows, T: Floats, seed: int
) -> tuple[Floats, Ints, Floats | None]:
    """Observed shares (M, n), runs behind them (M, n), and probabilities (M, n) where they are emulated."""
    i, j = rows.cluster, rows.task
    if source == "off":
        return np.where(np.isfinite(T), 1.0, np.nan), np.zeros(T.shape, np.int64), None
    if source == "observed":
        return cells.reliability, cells.finished, None
    tasks = tables["tasks"]
    pressure = memory_pressure({c: floats(tasks[c])[j] for c in ("param_count", "activations", "batch_size")})
    memory = floats(tables["clusters"]["memory_bytes"])[i]
    emulated = emulate_failures(settings.failure_model, T, pressure, memory, seed=seed)
    return emulated.share, emulated.runs, emulated.probability

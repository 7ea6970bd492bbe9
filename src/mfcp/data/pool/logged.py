"""The task pool of what was logged, and nothing else: what releases learn from and are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.pool.run_totals import floats, pair_index
from mfcp.data.pool.splits import family_of
from mfcp.data.pool.task_pool import TaskPool
from mfcp.data.pool.times import measure_cells, or_median
from mfcp.errors import DataError

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

ENOUGH_TASKS = 15
"""Different tasks with a time after which a cluster is never left out for having fewer than the others."""


@dataclass(frozen=True)
class PoolRows:
    """Which clusters, and which tasks in how many copies, enter a pool; all (M',) or (n',)."""

    cluster: Ints
    task: Ints
    copy: Ints

    def names(self, tables: Tables) -> Texts:
        """(n',) unique names: that of the task, numbered from the second copy on."""
        task_id = tables["tasks"]["task_id"].to_numpy(str)[self.task]
        return np.array([t if k == 0 else f"{t}#{k + 1}" for t, k in zip(task_id, self.copy, strict=True)], np.str_)

    def labels(self, tables: Tables) -> dict[str, Any]:
        """What the rows of a pool are of, by the name of the attribute of `TaskPool` that holds it."""
        return {
            "task_id": self.names(tables),
            "family": families(tables)[self.task],
            "source_task": tables["tasks"]["task_id"].to_numpy(str)[self.task],
            "cluster_id": tables["clusters"]["cluster_id"].to_numpy(str)[self.cluster],
        }


def logged_pool(tables: Tables, *, least_tasks: int | None = None) -> TaskPool:
    """The task pool of a validated log, for operation: logged seconds and counted outcomes, nothing drawn.

    Execution time of a pair: mean `duration_s` of its succeeded runs, else samples / (pool_size · samples_per_s) with
    the samples that the log states or implies. A task without either is left out. Where that leaves no task at all,
    the log tells throughput only: times are then of one sample (`TaskPool.per_sample`), of tasks whose batch is known.

    Reliability is the share of succeeded among finished runs. A log in which no run failed tells nothing of it
    (`TaskPool.reliability_known`).

    Args:
        tables: tasks, clusters, runs and maybe truth, as `validate` returns them.
        least_tasks: different tasks with a time that a cluster needs; None: see `fewest_tasks`.

    Raises:
        DataError: fewer than two clusters have enough tasks.
    """
    sizes = pool_sizes(tables)
    cells = measure_cells(tables, sizes)
    seconds = cells.seconds(cells.samples, sizes)
    samples, per_sample = cells.samples, not np.isfinite(seconds).any()
    if per_sample:
        seconds = np.where(cells.stepwise, np.nan, cells.per_unit / sizes[:, None])
        samples = np.ones(seconds.shape[1])
    rows, notes = choose_rows(tables, np.isfinite(seconds), least_tasks)
    i, j = rows.cluster, rows.task
    T, cells = seconds[np.ix_(i, j)], cells.at(i, j)
    truth = truth_of(tables, i, j)
    observes = bool((cells.succeeded < cells.finished)[np.isfinite(T)].any())
    return TaskPool(
        **rows.labels(tables),
        T=T,
        A=cells.reliability,
        runs=cells.finished,
        allowed=np.isfinite(T),
        samples=or_median(samples[j]),
        pool_size=sizes[i],
        T_true=None if truth is None or per_sample else np.where(np.isfinite(truth[0]), truth[0], T),
        A_true=None if truth is None else np.where(np.isfinite(truth[1]), truth[1], cells.reliability),
        emulated=("runs",) if is_emulated(tables) else (),
        notes=tuple(notes),
        per_sample=per_sample,
        reliability_known=observes,
    )


def is_emulated(tables: Tables) -> bool:
    """Whether a log's runs never took place: a cluster says so, or the log tells what only an emulator knows."""
    return "truth" in tables or bool((tables["clusters"]["origin"] == "emulated").any())


def pool_sizes(tables: Tables) -> Floats:
    """(M,) devices side by side on one task that the log states, 1 where it does not."""
    stated = floats(tables["clusters"]["pool_size"])
    result: Floats = np.where(np.isfinite(stated), stated, 1.0)
    return result


def fewest_tasks(per_cluster: Ints) -> int:
    """Different tasks that a cluster needs beside others with so many: half of the most, at least 2, at most 15."""
    return int(np.clip(-(-int(per_cluster.max(initial=0)) // 2), 2, ENOUGH_TASKS))


def choose_rows(
    tables: Tables, usable: Bools, least_tasks: int | None, copies: Ints | None = None
) -> tuple[PoolRows, list[str]]:
    """Clusters with enough tasks and tasks with a time on one of them; and notes on what is left out.

    Args:
        tables: the log.
        usable: (M, n) pairs with a time.
        least_tasks: that a cluster needs, replicas not counted; None: `fewest_tasks`.
        copies: (n,) of each task; None: one.

    Raises:
        DataError: fewer than two clusters have enough tasks.
    """
    per_cluster = usable.sum(axis=1)
    least = fewest_tasks(per_cluster) if least_tasks is None else least_tasks
    kept = per_cluster >= least
    few = [
        f"{name} ({count})"
        for name, count, keep in zip(tables["clusters"]["cluster_id"], per_cluster, kept, strict=True)
        if not keep
    ]
    reason = f"fewer than {least} tasks with a time (pool.min_tasks_per_cluster)"
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
    number = np.ones(len(source), np.int64) if copies is None else copies[source]
    task = np.repeat(source, number)
    copy = np.concatenate([np.arange(k) for k in number])
    return PoolRows(np.flatnonzero(kept), task, copy), notes


def truth_of(tables: Tables, i: Ints, j: Ints) -> tuple[Floats, Floats] | None:
    """Expected seconds and reliability (M', n') of table truth, nan where it has no row; None without the table."""
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


def families(tables: Tables) -> Texts:
    """(n,) the log's family of each task, else the model's first word, else the task itself."""
    own, model, task = (tables["tasks"][name].astype(object) for name in ("family", "model", "task_id"))
    result: Texts = own.fillna(model.map(family_of, na_action="ignore")).fillna(task).to_numpy(str)
    return result

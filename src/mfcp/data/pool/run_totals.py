"""What the runs of a log add up to, pair by pair: all that is learned from them, however many they are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Bools, Floats, Ints
from mfcp.data.log.schema import STARVED, SUCCEEDED, UNFINISHED

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.log.tables import Tables

Times = NDArray[np.datetime64]


@dataclass(frozen=True)
class Values:
    """Count, sum and spread of a number that runs may tell, for every pair; M clusters, n tasks.

    Attributes:
        count: (M, n) how many.
        total: (M, n) their sum.
        square: (M, n) squares of their deviations from their mean, summed.
    """

    count: Ints
    total: Floats
    square: Floats

    @staticmethod
    def of(pair: Ints, values: Floats, shape: tuple[int, int]) -> Values:
        """Of the finite values (rows,) of each pair, given as cluster · n + task."""
        known, size = np.isfinite(values), shape[0] * shape[1]
        pair, values = pair[known], values[known]
        count = np.bincount(pair, minlength=size)
        total = np.bincount(pair, values, size).astype(np.float64)
        off = values - (total / np.maximum(count, 1))[pair]
        square = np.bincount(pair, off**2, size).astype(np.float64)
        return Values(count.astype(np.int64).reshape(shape), total.reshape(shape), square.reshape(shape))

    @property
    def mean(self) -> Floats:
        """(M, n), nan where nothing is known."""
        result: Floats = np.where(self.count > 0, self.total / np.maximum(self.count, 1), np.nan)
        return result

    def __add__(self, other: Values) -> Values:
        """Of the runs of both. The squares are those of Chan, Golub and LeVeque (1979)."""
        count, both = self.count + other.count, (self.count > 0) & (other.count > 0)
        apart = np.where(both, other.mean - self.mean, 0.0)
        square = self.square + other.square + apart**2 * self.count * other.count / np.maximum(count, 1)
        return Values(count, self.total + other.total, square)

    def where(self, here: Bools, other: Values) -> Values:
        """These at some pairs or tasks, others elsewhere."""
        return Values(*(np.where(here, getattr(self, f.name), getattr(other, f.name)) for f in fields(Values)))


@dataclass(frozen=True)
class RunTotals:
    """What the runs of a log add up to; M clusters and n tasks of its tables, S runs of tasks that state no samples.

    Times and batches are of succeeded runs alone.

    Attributes:
        finished: (M, n) runs that count for reliability.
        succeeded: (M, n) those that succeeded.
        duration: seconds.
        sample, step: seconds per sample, by throughput or batch, and per step.
        log_duration, log_sample, log_step: their logarithms.
        batch: samples of a step, of the run or else its task.
        whole: 1 in full precision, 0 in another, of runs that tell.
        peak: bytes at the peak, of one device.
        starved: (M, n) runs that ended for want of memory.
        sampled: (n,) tasks of which any run, failed ones included, tells seconds per sample.
        batches: batch sizes of all runs in rising order, and how many runs have each.
        implied: (S, 4) position of the cluster and of the task, samples by the sample's time, and by the step's; of
            runs that tell a duration.
        first, last: (n,) when a task's first and last run began, nanoseconds of UTC; NaT where no run tells.
    """

    finished: Ints
    succeeded: Ints
    duration: Values
    sample: Values
    step: Values
    log_duration: Values
    log_sample: Values
    log_step: Values
    batch: Values
    whole: Values
    peak: Values
    starved: Ints
    sampled: Bools
    batches: tuple[Floats, Ints]
    implied: Floats
    first: Times
    last: Times

    @staticmethod
    def of(tables: Tables, runs: pd.DataFrame) -> RunTotals:
        """Of some runs.

        Args:
            tables: tasks and clusters.
            runs: rows in the schema's types, of those tasks and clusters.
        """
        tasks = tables["tasks"]
        shape = (len(tables["clusters"]), len(tasks))
        cluster, task = pair_index(tables, runs)
        pair = cluster * shape[1] + task
        good = (runs["status"] == SUCCEEDED).to_numpy(bool)
        finished = ~runs["status"].isin(UNFINISHED).to_numpy(bool)
        batch = batch_sizes(runs, _told(tasks, "batch_size")[task])
        duration, step, rate = (_told(runs, name) for name in ("duration_s", "step_time_s", "samples_per_s"))
        sample = np.where(rate > 0, 1.0 / np.where(rate > 0, rate, 1.0), step / batch)
        sampled = np.bincount(task, np.isfinite(sample), shape[1]) > 0
        times = {"duration": duration, "sample": sample, "step": step}
        logs = {f"log_{name}": _log(values) for name, values in times.items()}
        others = {"batch": batch, "whole": _whole(runs), "peak": _told(runs, "peak_memory_bytes")}
        own = {name: Values.of(pair[good], values[good], shape) for name, values in (times | logs | others).items()}
        unstated = good & np.isfinite(duration) & ~np.isfinite(_told(tasks, "samples"))[task]
        sizes, counts = np.unique(batch[np.isfinite(batch)], return_counts=True)
        first, last = _ends(runs, task, shape[1])
        return RunTotals(
            finished=_count(pair[finished], shape),
            succeeded=_count(pair[good], shape),
            starved=_count(pair[(runs["status"] == STARVED).to_numpy(bool)], shape),
            **own,
            sampled=sampled,
            batches=(sizes, counts.astype(np.int64)),
            implied=np.column_stack([cluster, task, duration / sample, duration / step])[unstated],
            first=first,
            last=last,
        )

    def __add__(self, other: RunTotals) -> RunTotals:
        """Of the runs of both."""
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        added = {name: value + getattr(other, name) for name, value in mine.items() if isinstance(value, Values)}
        sizes, at = np.unique(np.concatenate([self.batches[0], other.batches[0]]), return_inverse=True)
        counts = np.bincount(at, np.concatenate([self.batches[1], other.batches[1]]), len(sizes))
        return RunTotals(
            **added,
            finished=self.finished + other.finished,
            succeeded=self.succeeded + other.succeeded,
            starved=self.starved + other.starved,
            sampled=self.sampled | other.sampled,
            batches=(sizes, counts.astype(np.int64)),
            implied=np.concatenate([self.implied, other.implied]),
            first=np.fmin(self.first, other.first),
            last=np.fmax(self.last, other.last),
        )

    @property
    def unit(self) -> Values:
        """Seconds per sample, or per step of tasks of which no run tells samples."""
        return self.sample.where(self.sampled, self.step)

    @property
    def log_time(self) -> Values:
        """Log seconds of pairs with a duration, else log seconds per sample or step."""
        return self.log_duration.where(self.duration.count > 0, self.log_sample.where(self.sampled, self.log_step))

    def usual_batch(self) -> float:
        """Median batch of all runs; 1 where none is known."""
        sizes, counts = self.batches
        if not len(sizes):
            return 1.0
        rank = np.cumsum(counts)
        middle = np.searchsorted(rank, [(rank[-1] - 1) // 2, rank[-1] // 2], side="right")
        return float(sizes[middle].mean())

    def implied_samples(self, pool_size: Floats) -> Floats:
        """(n,) median over a task's runs of what duration and throughput imply, nan for tasks that state theirs.

        Args:
            pool_size: (M,) accelerators that the runs used side by side.
        """
        import pandas as pd

        cluster, task = self.implied[:, 0].astype(np.int64), self.implied[:, 1].astype(np.int64)
        samples = np.where(self.sampled[task], self.implied[:, 2], self.implied[:, 3]) * pool_size[cluster]
        return floats(pd.Series(samples).groupby(task).median().reindex(range(len(self.sampled))))


class TotalledLog(dict[str, "pd.DataFrame"]):
    """The tables of a log but its runs, of which it has the totals.

    Args:
        tables: of the log.
        totals: of its runs.
    """

    def __init__(self, tables: Tables, totals: RunTotals) -> None:
        super().__init__(tables)
        self.totals = totals


def totals_of(tables: Tables) -> RunTotals:
    """What the runs of a validated log add up to."""
    return tables.totals if isinstance(tables, TotalledLog) else RunTotals.of(tables, tables["runs"])


def totalled(tables: Tables) -> TotalledLog:
    """The same log with the totals of its runs in place of them, for who asks for them more than once."""
    others = {name: table for name, table in tables.items() if name != "runs"}
    return TotalledLog(others, totals_of(tables))


def pair_index(tables: Tables, frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """Positions (cluster, task) in their tables of every row of `frame`."""
    import pandas as pd

    cluster = pd.Index(tables["clusters"]["cluster_id"]).get_indexer(frame["cluster_id"])
    task = pd.Index(tables["tasks"]["task_id"]).get_indexer(frame["task_id"])
    return cluster.astype(np.int64), task.astype(np.int64)


def floats(values: pd.Series[Any]) -> Floats:
    """(rows,) a number column as float64, empty cells as nan."""
    return values.to_numpy(np.float64, na_value=np.nan)


def batch_sizes(runs: pd.DataFrame, of_task: Floats) -> Floats:
    """(runs,) batch size of each run, else that of its task, nan where neither is known.

    Args:
        runs: rows of table runs.
        of_task: (runs,) what the task of each run says.
    """
    batch = _told(runs, "batch_size")
    return np.where(np.isfinite(batch), batch, of_task)


def _told(table: pd.DataFrame, name: str) -> Floats:
    """(rows,) a number column, all nan where there is none."""
    return floats(table[name]) if name in table else np.full(len(table), np.nan)


def _whole(runs: pd.DataFrame) -> Floats:
    """(runs,) 1 in full precision, 0 in another, nan where a run does not tell."""
    if "precision" not in runs:
        return np.full(len(runs), np.nan)
    told = runs["precision"].notna().to_numpy(bool)
    return np.where(told, (runs["precision"].fillna("") == "fp32").to_numpy(np.float64), np.nan)


def _log(values: Floats) -> Floats:
    """Logarithms, nan of what is not positive."""
    return np.log(np.where(values > 0, values, np.nan))


def _ends(runs: pd.DataFrame, task: Ints, count: int) -> tuple[Times, Times]:
    """(count,) first and last `started_at` of each task."""
    import pandas as pd

    if "started_at" not in runs:
        return np.full(count, np.datetime64("NaT", "ns")), np.full(count, np.datetime64("NaT", "ns"))
    started = pd.to_datetime(runs["started_at"], utc=True).dt.tz_localize(None).groupby(task)
    first, last = (ends.reindex(range(count)).to_numpy("datetime64[ns]") for ends in (started.min(), started.max()))
    return first, last


def _count(pair: Ints, shape: tuple[int, int]) -> Ints:
    return np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)

"""From runs to one number a pair: seconds, seconds per sample, and counts of success (contract of the log schema)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.data.pool.run_totals import floats, totals_of

if TYPE_CHECKING:
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
        """(M, n) share of succeeded among finished runs, nan where none has finished."""
        share: Floats = np.where(self.finished > 0, self.succeeded / np.maximum(self.finished, 1), np.nan)
        return share

    def seconds(self, samples: Floats, pool_size: Floats) -> Floats:
        """(M, n) seconds end to end: what was measured, else as many samples at the measured rate; nan without both.

        Args:
            samples: (n,) of each task.
            pool_size: (M,) accelerators that share a task's samples.
        """
        by_rate = samples * self.per_unit / pool_size[:, None]
        result: Floats = np.where(np.isfinite(self.duration), self.duration, by_rate)
        return result

    def at(self, cluster: Ints, task: Ints) -> Cells:
        """Those of M' clusters and n' tasks by their rows; a task may come several times."""
        pairs = np.ix_(cluster, task)
        return Cells(
            duration=self.duration[pairs],
            per_unit=self.per_unit[pairs],
            stepwise=self.stepwise[task],
            unit=self.unit[task],
            finished=self.finished[pairs],
            succeeded=self.succeeded[pairs],
            samples=self.samples[task],
        )


def measure_cells(tables: Tables, pool_size: Floats) -> Cells:
    """Aggregate validated tables.

    Args:
        tables: tasks, clusters and runs.
        pool_size: (M,) accelerators that the logged runs used side by side.
    """
    totals = totals_of(tables)
    samples = floats(tables["tasks"]["samples"])
    return Cells(
        duration=totals.duration.mean,
        per_unit=totals.unit.mean,
        stepwise=~totals.sampled,
        unit=np.where(totals.sampled, 1.0, totals.usual_batch()),
        finished=totals.finished,
        succeeded=totals.succeeded,
        samples=np.where(np.isfinite(samples), samples, totals.implied_samples(pool_size)),
    )


def or_median(samples: Floats) -> Floats:
    """(n,) samples, the median of those that are known where one is not; 1 where none is."""
    known = np.isfinite(samples)
    result: Floats = np.where(known, samples, np.median(samples[known]) if known.any() else 1.0)
    return result


def run_spread(tables: Tables, cluster_id: Texts, task_id: Texts) -> tuple[Floats, Ints]:
    """Sum of squared deviations of log time within every pair, and its succeeded runs with a time: each (M, n).

    Of durations where the pair has any, else of seconds per sample or step.

    Args:
        tables: the log.
        cluster_id, task_id: (M,) and (n,) of its clusters and tasks, each once.
    """
    import pandas as pd

    time = totals_of(tables).log_time
    at = np.ix_(
        pd.Index(tables["clusters"]["cluster_id"]).get_indexer(pd.Index(cluster_id)),
        pd.Index(tables["tasks"]["task_id"]).get_indexer(pd.Index(task_id)),
    )
    return time.square[at], time.count[at]

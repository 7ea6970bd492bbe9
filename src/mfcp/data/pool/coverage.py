"""What a log is good for: how much of it can be learned from, and what each command would need more of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.data.pool.logged import fewest_tasks, pool_sizes
from mfcp.data.pool.times import measure_cells
from mfcp.errors import DataError, in_shell

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

BENCHMARK_TASKS = 6
"""Two tasks each to learn from, to tune on and to test on: fewer make no round, or no choice between clusters."""
RELEASE_TASKS = 3
"""Two tasks to learn from beside the one that is left out, by which errors are measured."""


@dataclass(frozen=True)
class Coverage:
    """Counts of a log's cells, after validation.

    Attributes:
        cluster_id: (M,) names.
        tasks: (M,) different tasks with a time there: a duration, or a throughput.
        finished, succeeded: (M,) runs.
        runs: (M,) median number of succeeded runs of a measured pair; 0 without any.
        shared: tasks with a time on at least two clusters that have enough tasks.
        pairs: measured pairs, and how many there could be.
        durations: whether any run tells a duration.
        work: tasks whose samples are stated or implied.
        timed: tasks with a time anywhere.
        failures: runs that finished without success, of pairs with a time.
    """

    cluster_id: tuple[str, ...]
    tasks: Ints
    finished: Ints
    succeeded: Ints
    runs: Floats
    shared: int
    pairs: tuple[int, int]
    durations: bool
    work: int
    timed: int
    failures: int

    @staticmethod
    def of(tables: Tables) -> Coverage:
        """Of a validated log."""
        cells = measure_cells(tables, pool_sizes(tables))
        known = np.isfinite(cells.duration) | np.isfinite(cells.per_unit)
        count = np.where(known, cells.succeeded, 0)
        tasks = known.sum(axis=1)
        enough = known[tasks >= fewest_tasks(tasks)]
        typical = [float(np.median(c[k])) if k.any() else 0.0 for c, k in zip(count, known, strict=True)]
        return Coverage(
            cluster_id=tuple(tables["clusters"]["cluster_id"].astype(str)),
            tasks=tasks,
            finished=cells.finished.sum(axis=1),
            succeeded=cells.succeeded.sum(axis=1),
            runs=np.array(typical),
            shared=int((enough.sum(axis=0) >= 2).sum()),
            pairs=(int(known.sum()), known.size),
            durations=bool(np.isfinite(cells.duration).any()),
            work=int(np.isfinite(cells.samples).sum()),
            timed=int(known.any(axis=0).sum()),
            failures=int((cells.finished - cells.succeeded)[known].sum()),
        )

    def missing(self, tasks: int) -> list[str]:
        """Every reason why nothing can be learned from so few tasks and clusters, each with what is there."""
        timed = int((self.tasks > 0).sum())
        usable = int((self.tasks >= fewest_tasks(self.tasks)).sum())
        reasons = []
        if not timed:
            reasons.append("runs: none that succeeded tells duration_s, samples_per_s or step_time_s")
        if usable < 2:
            reasons.append(
                f"clusters: {usable} of {len(self.tasks)} with a time of at least {fewest_tasks(self.tasks)} tasks, "
                "2 needed"
            )
        if self.shared < tasks:
            reasons.append(f"tasks: {self.shared} with a time on two such clusters, {tasks} needed")
        return reasons


def refuse_thin(coverage: Coverage, *, benchmark: bool, where: str) -> None:
    """Raise unless a log is enough for a benchmark, or for a release, naming every limit and what works instead.

    Raises:
        DataError: with all that is missing.
    """
    tasks = BENCHMARK_TASKS if benchmark else RELEASE_TASKS
    reasons = coverage.missing(tasks)
    if not reasons:
        return
    what = "a benchmark" if benchmark else "a release"
    releases = benchmark and not coverage.missing(RELEASE_TASKS)
    log = in_shell(where)
    works = f"mfcp release --data {log} --out my-release" if releases else f"mfcp check {log}"
    why = " (2 each to learn from, to tune on and to test on)" if benchmark and coverage.shared < tasks else ""
    listed = "; ".join(reasons)
    raise DataError(f"{where}: too little for {what}: {listed}{why}. What works on this log: {works}")

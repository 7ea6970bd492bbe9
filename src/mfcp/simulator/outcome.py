"""What came of a run: times of jobs, the log of events, and the numbers that people compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import log_frame
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.kernels.books import EVENT_NAMES


@dataclass(frozen=True)
class Outcome:
    """A finished run of n jobs.

    Attributes:
        jobs, cluster: what ran where.
        started: (n,) seconds of the first start.
        finished: (n,) seconds; NaN for a job that does not finish.
        executed: (n,) seconds on accelerators, all attempts and overheads; held: (n,) accelerator-seconds of them.
        lost: (n,) accelerator-seconds of failed attempts, overheads included.
        stops: (n,) preemptions.
        record: (r,) what happened, `mfcp.simulator.kernels.books.ROW`.
        work: how much a run did: events, steps in heaps, jobs that were looked at.
        joules: (n,) energy, where configurations have watts.
        in_use: (r, 2) seconds, and accelerators that some job has from then on; where jobs share them, the record does
            not tell. Empty elsewhere.
        taken: (n,) seconds × the weighted part of all hosts' resources that a job had, on a clock of hosts; else empty.
    """

    jobs: Jobs
    cluster: Cluster
    started: Floats
    finished: Floats
    executed: Floats
    held: Floats
    lost: Floats
    stops: Ints
    record: Any
    work: dict[str, int]
    joules: Floats = field(default_factory=lambda: np.empty(0))
    in_use: Floats = field(default_factory=lambda: np.empty((0, 2)))
    taken: Floats = field(default_factory=lambda: np.empty(0))

    @cached_property
    def log(self) -> pd.DataFrame:
        """A row per happening: `time_s`, `job` (row of the job), `event`, `gpus`, `node` (the first; -1 for none).

        In rounds and for decisions, `node` is the type. See `mfcp.simulator.event_log`.
        """
        return log_frame(self.record)

    @property
    def jct(self) -> Floats:
        """(n,) seconds from submission to end: job completion time."""
        return self.finished - self.jobs.submit

    def unfinished(self) -> dict[str, Ints]:
        """Rows of the jobs that do not finish, by why: `declined`, `given_up`, or `never_ends`."""
        missing, why = np.isnan(self.finished), {}
        for name in ("declined", "given_up"):
            rows = self.record["job"][self.record["event"] == EVENT_NAMES.index(name)]
            why[name] = np.sort(rows).astype(np.int64)
            missing[why[name]] = False
        return why | {"never_ends": np.flatnonzero(missing)}

    def metrics(self) -> dict[str, float]:
        """The numbers of a run; times in seconds. Jobs that do not finish are in no completion time, but counted."""
        jobs, jct, done = self.jobs, self.jct, ~np.isnan(self.finished)
        span = np.nanmax(self.finished) - jobs.submit[0] if done.any() else np.nan
        have, met = np.isfinite(jobs.deadline), self.finished <= jobs.deadline
        weight = jobs.service[have]
        return {
            "mean_jct_s": float(np.nanmean(jct)) if done.any() else np.nan,
            "p95_jct_s": float(np.nanpercentile(jct, 95)) if done.any() else np.nan,
            "p99_jct_s": float(np.sort(jct[done])[int(0.99 * done.sum())]) if done.any() else np.nan,
            "mean_wait_s": float(np.nanmean(self.started - jobs.submit)) if done.any() else np.nan,
            "makespan_s": float(span),
            "utilization": float(self.held.sum() / (self.cluster.accelerators * span)),
            "deadlines_met": float(met[have].mean()) if have.any() else np.nan,
            "deadlines_met_by_service": float(np.average(met[have], weights=weight)) if have.any() else np.nan,
            "lost_gpu_s": float(self.lost.sum()),
            "preemptions": float(self.stops.sum()),
            **{why: float(len(rows)) for why, rows in self.unfinished().items()},
            "energy_j": float(self.joules.sum()),
        }

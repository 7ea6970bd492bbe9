"""What came of a run: times of jobs, the log of events, and the numbers that people compare."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints
from mfcp.simulator.clocks import rounds
from mfcp.simulator.clocks.state import EVENTS, HEAP_STEPS, KINDS, LOGGED, RANKED, Log, State
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs


@dataclass(frozen=True)
class Outcome:
    """A finished run of n jobs.

    Attributes:
        jobs, cluster: what ran where.
        started: (n,) seconds of the first start.
        finished: (n,) seconds; NaN for a job that was given up after its last failure.
        executed: (n,) seconds on accelerators, all attempts and overheads.
        lost: (n,) accelerator-seconds of failed attempts.
        stops: (n,) preemptions.
        log: a row per happening: `time_s`, `job` (row of the job), `event`, `gpus`, `node` (the first; -1 for
            none; in rounds, the type).
        joules: (n,) energy, where configurations have watts.
        work: how much a run did: events, steps in the heap, ranked jobs.
    """

    jobs: Jobs
    cluster: Cluster
    started: Floats
    finished: Floats
    executed: Floats
    lost: Floats
    stops: Ints
    log: pd.DataFrame
    work: dict[str, int]
    joules: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def jct(self) -> Floats:
        """(n,) seconds from submission to end: job completion time."""
        return self.finished - self.jobs.submit

    def metrics(self) -> dict[str, float]:
        """The numbers of a run; times in seconds."""
        jobs, jct, done = self.jobs, self.jct, ~np.isnan(self.finished)
        span = np.nanmax(self.finished) - jobs.submit[0] if done.any() else np.nan
        have, met = np.isfinite(jobs.deadline), self.finished <= jobs.deadline
        weight = jobs.service[have]
        return {
            "mean_jct_s": float(np.nanmean(jct)) if done.any() else np.nan,
            "p95_jct_s": float(np.nanpercentile(jct, 95)) if done.any() else np.nan,
            "p99_jct_s": float(np.sort(jct[done])[int(0.99 * done.sum())]) if done.any() else np.nan,
            "mean_wait_s": float(np.nanmean(self.started - jobs.submit)),
            "makespan_s": float(span),
            "utilization": float((self.executed * jobs.gpus).sum() / (self.cluster.accelerators * span)),
            "deadlines_met": float(met[have].mean()) if have.any() else np.nan,
            "deadlines_met_by_service": float(np.average(met[have], weights=weight)) if have.any() else np.nan,
            "lost_gpu_s": float(self.lost.sum()),
            "preemptions": float(self.stops.sum()),
            "given_up": float((~done).sum()),
            "energy_j": float(self.joules.sum()),
        }

    @staticmethod
    def of_events(jobs: Jobs, cluster: Cluster, state: State, log: Log) -> Outcome:
        """From the columns of the clock of events."""
        names = {"events": EVENTS, "heap_steps": HEAP_STEPS, "ranked": RANKED}
        return Outcome(
            jobs, cluster, state.started, state.finished, state.executed, state.lost, state.stops,
            _frame(log, int(state.counts[LOGGED])), {name: int(state.counts[k]) for name, k in names.items()},
        )  # fmt: skip

    @staticmethod
    def of_rounds(jobs: Jobs, cluster: Cluster, ledger: rounds.Ledger, log: Log) -> Outcome:
        """From the columns of the clock of rounds."""
        names = {"rounds": rounds.ROUNDS, "resets": rounds.RESETS}
        return Outcome(
            jobs, cluster, ledger.started, ledger.finished, ledger.executed, np.zeros(len(jobs.id)), ledger.stops,
            _frame(log, int(ledger.counts[rounds.LOGGED])), {name: int(ledger.counts[k]) for name, k in names.items()},
        )  # fmt: skip


def _frame(log: Log, used: int) -> pd.DataFrame:
    order = np.argsort(log.time[:used], kind="stable")
    columns = {"time_s": log.time, "job": log.job, "event": np.array(KINDS)[log.kind[:used]], "gpus": log.gpus}
    return pd.DataFrame({name: values[:used][order] for name, values in (columns | {"node": log.node}).items()})

"""The course of jobs under a clock of Python: what is true and believed of them, the books on them, and the log."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SolverError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import EventLog
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.kernels.books import FAILED, FINISHED, GIVEN_UP, SUBMITTED
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.deciding import Falls
from mfcp.simulator.qore.training_losses import TrainingLosses

IDLE = 1000  # turns in which no job runs, after which none ever will


class Course:
    """n jobs on a cluster.

    Args:
        jobs, cluster: what runs where.
        expected: (n,) seconds that jobs are believed to take; NaN where unknown.
        fails: (n, attempts) part of the iterations that is left when an attempt fails; negative where it succeeds.
        losses: what beliefs are told from while jobs train, if they are; `expected` is of all epochs then.

    Attributes:
        more: (n,) iterations that the belief adds to the true ones; NaN where unknown.
        left: (n,) iterations of the present attempt; goal: (n,) those at which it ends.
        executed: (n,) seconds on accelerators; held: (n,) accelerator-seconds; joules: (n,).
        started, finished: (n,) seconds, NaN before; stops: (n,) how often it was taken off; lost: (n,) accelerator-
            seconds of failed attempts, overheads included.
        now: seconds; arrived: how many jobs have been submitted.
        log: what has happened; in_use: see `Outcome`, rows that a clock adds where jobs share accelerators.
    """

    def __init__(
        self, jobs: Jobs, cluster: Cluster, expected: Floats, fails: Floats, losses: TrainingLosses | None = None
    ) -> None:
        n = len(jobs.id)
        self.jobs, self.cluster, self.losses = jobs, cluster, losses
        self.more = (expected - jobs.duration) / jobs.step
        self.left, self.attempt = jobs.iterations.astype(float), np.zeros(n, np.int64)
        self._fails = np.column_stack([fails, np.full(n, -1.0)])
        self.goal = self._goal(np.arange(n))
        self.executed, self.held, self.joules, self.lost = (np.zeros(n) for _ in range(4))
        self.started, self.finished, self.stops = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.int64)
        self.now, self.arrived, self.log, self._idle = 0.0, 0, EventLog(), 0
        self.in_use: list[tuple[float, float]] = []

    def arrive(self) -> Ints:
        """Jobs that have been submitted since the last call."""
        first = self.arrived
        self.arrived = int(np.searchsorted(self.jobs.submit, self.now, side="right"))
        rows = np.arange(first, self.arrived)
        self.log.add(self.jobs.submit[rows], rows, SUBMITTED, self.jobs.gpus[rows], -1)
        return rows

    def next_arrival(self) -> float:
        """Seconds; infinite if none is to come."""
        return float(self.jobs.submit[self.arrived]) if self.arrived < len(self.jobs.id) else np.inf

    def believed_left(self, rows: Ints) -> Floats:
        """(k,) iterations; of a job that outlives the belief, a hundredth of the whole. NaN where unknown."""
        if self.losses is not None:
            return self.losses.left(rows, self.trained(rows)) * self.all_iterations(rows)
        left, total = self.left[rows] + self.more[rows], self.jobs.iterations[rows] + self.more[rows]
        return np.where(left <= 1e-9 * total, 0.01 * total, left)

    def all_iterations(self, rows: Ints) -> Floats:
        """(k,) that are believed to be needed when nothing is done."""
        return np.asarray(self.jobs.iterations[rows] + self.more[rows])

    def trained(self, rows: Ints) -> Floats:
        """(k,) part of `all_iterations` that is done."""
        return np.asarray((self.jobs.iterations[rows] - self.left[rows]) / self.all_iterations(rows))

    @property
    def falls(self) -> Falls | None:
        """(k,) jobs, (k, C) iterations further → (k, C) falls of losses, see `TrainingLosses`; None without losses."""
        if (losses := self.losses) is None:
            return None
        return lambda rows, further: losses.falls(
            rows, self.trained(rows), further / self.all_iterations(rows)[:, None]
        )

    def check_goes_on(self, runs: bool, policy: Policy) -> None:
        """Call once a turn, when the policy has said which jobs run: it must not let jobs wait for ever.

        Raises:
            SolverError: no job has run for so many turns, and none is to come.
        """
        self._idle = 0 if runs or self.next_arrival() < np.inf else self._idle + 1
        if self._idle == IDLE:
            raise SolverError(f"policy '{policy.name}' lets jobs wait, turn after turn; they never run")

    def begin(self, rows: Ints) -> None:
        """Jobs run now; the first time counts."""
        self.started[rows] = np.where(np.isnan(self.started[rows]), self.now, self.started[rows])

    def end(self, rows: Ints, times: Floats, gpus: Ints, node: Ints) -> Bools:
        """The present attempts of jobs end.

        Returns:
            (k,) whether a job has to be tried again.
        """
        tries, attempt = self._fails.shape[1] - 1, self.attempt[rows]
        failed = self._fails[rows, attempt] >= 0
        again = failed & (attempt + 1 < tries)
        for event, mask in ((FINISHED, ~failed), (FAILED, again), (GIVEN_UP, failed & ~again)):
            self.log.add(times[mask], rows[mask], event, gpus[mask], node[mask])
        self.finished[rows[~failed]] = times[~failed]
        self.left[rows] = np.where(failed, self.jobs.iterations[rows], 0.0)
        self.lost[rows[failed]] = self.held[rows[failed]]  # all attempts so far have failed
        self.attempt[rows] += failed
        self.goal[rows] = self._goal(rows)
        return np.asarray(again)

    def outcome(self, work: dict[str, int]) -> Outcome:
        """What has come of it; `work` is how much was done."""
        return Outcome(
            self.jobs, self.cluster, self.started, self.finished, self.executed, self.held, self.lost, self.stops,
            self.log.rows(), work, self.joules, np.array(self.in_use, float).reshape(-1, 2),
        )  # fmt: skip

    def _goal(self, rows: Ints) -> Floats:
        part = self._fails[rows, self.attempt[rows]]
        return np.asarray(np.maximum(part, 0.0) * self.jobs.iterations[rows])

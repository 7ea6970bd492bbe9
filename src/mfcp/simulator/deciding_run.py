"""A run of a policy that chooses configurations, on the clock of slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SolverError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import View
from mfcp.simulator.policies.deciding import Deciding, Demand
from mfcp.simulator.semantics import Slots

ABSENT, ACTIVE, DONE = 0, 1, 2


def run_deciding(
    jobs: Jobs, cluster: Cluster, policy: Deciding, terms: Slots, view: View, ways: Configurations
) -> Outcome:
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Raises:
        SolverError: the policy exceeds the cluster, chooses what a job cannot run, or lets everybody wait for ever.
    """
    run = _Course(jobs, cluster, policy, terms, view, ways)
    while run.step():
        pass
    return run.outcome()


class _Course:
    """Columns of n jobs, and what the policy does with them."""

    def __init__(
        self, jobs: Jobs, cluster: Cluster, policy: Deciding, terms: Slots, view: View, ways: Configurations
    ) -> None:
        n = len(jobs.id)
        self.jobs, self.cluster, self.policy, self.terms, self.ways = jobs, cluster, policy, terms, ways
        self.decider = policy.start()
        known = np.where(np.isnan(view.expected), jobs.duration, view.expected)
        self.more = (known / jobs.duration - 1.0) * jobs.iterations  # iterations that the belief adds
        self.left, self.status, self.chosen = jobs.iterations.astype(float), np.zeros(n, np.int64), np.full(n, -1)
        self.charge, self.executed, self.used, self.joules = (np.zeros(n) for _ in range(4))
        self.started, self.finished, self.stops = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.int64)
        self.now, self.last, self.wake, self.arrived, self.decisions = 0.0, -np.inf, np.inf, 0, 0
        self.known = set[tuple[int, int]]()  # layouts that were used since the last restart
        self.log: list[tuple[float, Ints, str, Ints, Ints]] = []

    def step(self) -> bool:
        """To the next event, and decide; whether anything is left to happen."""
        running = np.flatnonzero(self.chosen >= 0)
        ends = self.now + self.charge[running] + self.left[running] / self.pace(running)
        arrival = self.jobs.submit[self.arrived] if self.arrived < len(self.jobs.id) else np.inf
        event = min(arrival, ends.min(initial=np.inf), self.wake)
        if event == np.inf:
            if (self.status == ACTIVE).any():
                raise SolverError(f"policy '{self.policy.name}' lets jobs wait and asks for no further decision")
            return False
        self.pass_time(max(event, self.last + self.terms.slot_s, self.now), running, ends)
        self.decide(self.arrive())
        return True

    def pace(self, rows: Ints) -> Floats:
        """(k,) iterations per second where the jobs run."""
        rate: Floats = self.ways.rate[rows, self.chosen[rows]]
        return rate

    def pass_time(self, now: float, running: Ints, ends: Floats) -> None:
        """Everybody goes on until now, or to their end before."""
        until = np.minimum(ends, now) - self.now
        gpus = self.ways.gpus[self.chosen[running]]
        self.executed[running] += until
        self.used[running] += until * gpus
        self.joules[running] += until * self.ways.watts[self.chosen[running]]
        progress = np.maximum(until - self.charge[running], 0.0) * self.pace(running)
        self.charge[running] = np.maximum(self.charge[running] - until, 0.0)
        self.left[running] = np.maximum(self.left[running] - progress, 0.0)
        over = ends <= now
        rows = running[over]
        self.finished[rows], self.status[rows], self.left[rows] = ends[over], DONE, 0.0
        for job, end, held in zip(rows, ends[over], gpus[over], strict=True):
            self.tell(end, np.array([job]), "finished", np.array([held]))
        self.chosen[rows] = -1
        self.now = now

    def arrive(self) -> Ints:
        """Jobs that have been submitted by now."""
        first = self.arrived
        self.arrived = int(np.searchsorted(self.jobs.submit, self.now, side="right"))
        rows = np.arange(first, self.arrived)
        self.status[rows] = ACTIVE
        for job in rows:
            self.tell(self.jobs.submit[job], np.array([job]), "submitted", self.jobs.gpus[[job]])
        return rows

    def decide(self, new: Ints) -> None:
        """Ask the policy whom to admit and how all run."""
        active = np.flatnonzero(self.status == ACTIVE)
        self.last, self.wake = self.now, np.inf
        if len(active) == 0:
            return
        self.decisions += 1
        demand = self.demand(active)
        fresh = np.isin(active, new)
        admitted = ~fresh | self.decider.admit(demand, fresh)
        declined = active[~admitted]
        self.status[declined] = DONE
        self.tell(self.now, declined, "declined", self.jobs.gpus[declined])
        if not admitted.any():
            return
        decision = self.decider.decide(demand.rows(admitted))
        self.wake = decision.wake if decision.wake > self.now else np.inf
        self.apply(active[admitted], decision.chosen)

    def demand(self, active: Ints) -> Demand:
        """What the policy sees."""
        jobs, ways = self.jobs, self.ways
        left, total = self.left[active] + self.more[active], jobs.iterations[active] + self.more[active]
        left = np.where(left > 1e-9 * total, left, 0.01 * total)  # who outlives the belief needs a little more
        return Demand(
            self.now, active, jobs.submit[active], jobs.deadline[active], jobs.gpus[active], left,
            self.executed[active], self.chosen[active], ways.rate[active], ways.gpus, ways.type, ways.watts,
            self.cluster.by_type,
        )  # fmt: skip

    def apply(self, rows: Ints, chosen: Ints) -> None:
        """Start, change and stop; charge whoever starts or changes."""
        ways, runs = self.ways, chosen >= 0
        held = np.bincount(ways.type[chosen[runs]], ways.gpus[chosen[runs]], len(self.cluster.types))
        if (held > self.cluster.by_type).any() or (ways.rate[rows[runs], chosen[runs]] <= 0).any():
            raise SolverError(f"policy '{self.policy.name}' gives more than there is, or what a job cannot run on")
        before = self.chosen[rows]
        changed, was = (chosen != before) & runs, before >= 0
        gpus = np.where(runs, ways.gpus[chosen], 0)
        kept = np.where(was, ways.gpus[before], 0)
        self.tell(self.now, rows[was & ~runs], "stopped", kept[was & ~runs])
        self.tell(self.now, rows[changed & was], "resized", gpus[changed & was])
        self.tell(self.now, rows[changed & ~was], "started", gpus[changed & ~was])
        self.stops[rows[was & ~runs]] += 1
        self.chosen[rows] = chosen
        self.bill(rows, chosen, changed, runs)
        first = rows[changed & np.isnan(self.started[rows])]
        self.started[first] = self.now

    def bill(self, rows: Ints, chosen: Ints, changed: Bools, runs: Bools) -> None:
        """Seconds without progress of those who start, change, or just run, as the semantics say."""
        terms, gpus = self.terms, np.where(runs, self.ways.gpus[chosen], 1)
        restart = terms.restart_every > 0 and self.decisions % terms.restart_every == 0
        if restart:
            self.known.clear()
        pairs = list(zip(rows.tolist(), chosen.tolist(), strict=True))
        new = np.array([pair not in self.known for pair in pairs])
        self.known.update(pair for pair, yes in zip(pairs, runs, strict=True) if yes)
        cost = terms.charge_s + np.where(new, terms.per_doubling_s * (np.log2(gpus) + 1) + restart * terms.restart_s, 0)
        if terms.charge == "every decision":
            self.charge[rows] = np.where(runs, cost, 0.0)
        else:
            self.charge[rows] = np.where(changed, cost, np.where(runs, self.charge[rows], 0.0))

    def tell(self, time: float, rows: Ints, event: str, gpus: Ints) -> None:
        """Rows of the log."""
        if len(rows):
            kinds = np.where(self.chosen[rows] >= 0, self.ways.type[self.chosen[rows]], -1)
            self.log.append((time, rows, event, gpus, kinds))

    def outcome(self) -> Outcome:
        """What came of it."""
        columns: dict[str, list[Any]] = {"time_s": [], "job": [], "event": [], "gpus": [], "node": []}
        for time, rows, event, gpus, kinds in self.log:
            values: tuple[Any, ...] = ([time] * len(rows), rows, [event] * len(rows), gpus, kinds)
            for column, more in zip(columns.values(), values, strict=True):
                column.extend(more)
        log = pd.DataFrame(columns).sort_values("time_s", kind="stable", ignore_index=True)
        executed = self.used / self.jobs.gpus  # utilization counts the accelerators that a job asks for
        return Outcome(
            self.jobs, self.cluster, self.started, self.finished, executed, np.zeros(len(self.jobs.id)), self.stops,
            log, {"decisions": self.decisions}, self.joules,
        )  # fmt: skip

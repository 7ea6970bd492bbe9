"""The clock of decisions: at every event, or once in a slot, a policy chooses how each job runs."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SolverError
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.course import Course
from mfcp.simulator.kernels.books import DECLINED, RESIZED, STARTED, STOPPED
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand
from mfcp.simulator.semantics import SlotTerms


def run_decisions(course: Course, policy: Deciding, semantics: SlotTerms, ways: Configurations) -> Outcome:
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Raises:
        SolverError: the policy exceeds the cluster, chooses what a job cannot run, or lets everybody wait for ever.
    """
    run = _Decisions(course, policy, semantics, ways)
    while run.step():
        pass
    return course.outcome({"decisions": run.decisions})


class _Decisions:
    """What decisions need besides the course.

    Attributes:
        active: (n,) whether a job has come and not gone; chosen: (n,) its configuration, -1 if it does not run.
        charge: (n,) seconds still to pass without progress.
        used: (n, C) layouts of each job since the last restart; places: first accelerator and number of all jobs'.
        due: (n,) when a job gives back what it holds, with the charge, where that is the end of a slot.
    """

    def __init__(self, course: Course, policy: Deciding, semantics: SlotTerms, ways: Configurations) -> None:
        n = len(course.jobs.id)
        self.course, self.policy, self.terms, self.ways, self.decider = course, policy, semantics, ways, policy.start()
        self.active, self.chosen, self.charge = np.zeros(n, bool), np.full(n, -1), np.zeros(n)
        self.used, self.places = np.zeros(ways.rate.shape, bool), set[tuple[int, int]]()
        self.due, self.in_slots = np.full(n, np.inf), semantics.ends == "with a slot"
        self.last, self.wake, self.decisions, self.events = -np.inf, np.inf, 0, 0

    def step(self) -> bool:
        """To the next event, and decide; whether anything is left to happen."""
        course, running = self.course, np.flatnonzero(self.chosen >= 0)
        ends = self.due[running] if self.in_slots else course.now + self.charge[running] + self.rest(running)
        event = min(course.next_arrival(), ends.min(initial=np.inf), self.wake)
        if self.terms.ends == "with a decision":
            event = course.next_arrival()
            if event == np.inf and self.active.any():
                event = self.last + max(self.terms.slot_s, 1.0)
        if event == np.inf:
            if self.active.any():
                raise SolverError(f"policy '{self.policy.name}' lets jobs wait and asks for no further decision")
            return False
        self.pass_time(max(event, self.last + self.terms.slot_s, course.now), running, ends)
        new = course.arrive()
        self.active[new] = True
        self.decide(new)
        self.events += 1
        course.check_goes_on(bool((self.chosen >= 0).any()) or not self.active.any(), self.policy)
        return True

    def rest(self, rows: Ints) -> Floats:
        """(k,) seconds of work until the end of what runs."""
        return (self.course.left[rows] - self.course.goal[rows]) / self.pace(rows)

    def pace(self, rows: Ints) -> Floats:
        """(k,) iterations per second where the jobs run."""
        rate: Floats = self.ways.rate[rows, self.chosen[rows]]
        return rate

    def pass_time(self, now: float, running: Ints, ends: Floats) -> None:
        """Every job goes on until now, or to its end before."""
        course, ways, way, over = self.course, self.ways, self.chosen[running], ends <= now
        if self.in_slots:  # who is done in the middle of one is noticed, and ended then
            rest = self.rest(running)
            done = ~over & (rest <= now - course.now - self.charge[running])
            over, ends = over | done, np.where(done, course.now + np.ceil(rest), ends)
        until = np.minimum(ends, now) - course.now
        gpus = ways.gpus[way]
        course.executed[running] += until
        course.held[running] += until * gpus
        course.joules[running] += until * ways.watts[way]
        progress = np.maximum(until - self.charge[running], 0.0) * self.pace(running)
        self.charge[running] = np.maximum(self.charge[running] - until, 0.0)
        course.left[running] = np.maximum(course.left[running] - progress, course.goal[running])
        rows = running[over]
        again = course.end(rows, ends[over], gpus[over], ways.type[way[over]])
        self.chosen[rows], self.active[rows] = -1, again
        course.now = now

    def decide(self, new: Ints) -> None:
        """Ask the policy whom to admit and how all run."""
        course, active = self.course, np.flatnonzero(self.active)
        self.last, self.wake = course.now, np.inf
        if len(active) == 0:
            return
        self.decisions += 1
        demand = self.demand(active)
        fresh = np.isin(active, new)
        admitted = ~fresh | self.decider.admit(demand, fresh)
        declined = active[~admitted]
        self.active[declined] = False
        course.log.add(course.now, declined, DECLINED, course.jobs.gpus[declined], -1)
        if not admitted.any():
            return
        decision = self.decider.decide(demand.rows(admitted))
        self.wake = decision.wake if decision.wake > course.now else np.inf
        self.apply(active[admitted], decision)

    def demand(self, active: Ints) -> Demand:
        """What the policy sees."""
        course, jobs, ways = self.course, self.course.jobs, self.ways
        return Demand(
            course.now, active, jobs.submit[active], jobs.deadline[active], jobs.gpus[active],
            course.believed_left(active), course.executed[active], self.chosen[active], ways.rate[active], ways.gpus,
            ways.type, ways.watts, course.cluster.by_type, course.cluster.size, course.falls,
        )  # fmt: skip

    def apply(self, rows: Ints, decision: Allotment) -> None:
        """Start, change and stop; charge jobs that start or change."""
        course, ways, chosen, runs = self.course, self.ways, decision.chosen, decision.chosen >= 0
        held = np.bincount(ways.type[chosen[runs]], ways.gpus[chosen[runs]], len(course.cluster.types))
        if (held > course.cluster.by_type).any() or (ways.rate[rows[runs], chosen[runs]] <= 0).any():
            raise SolverError(f"policy '{self.policy.name}' gives more than there is, or what a job cannot run on")
        before = self.chosen[rows]
        changed, was = (chosen != before) & runs, before >= 0
        off, resized, on = was & ~runs, changed & was, changed & ~was
        for event, mask, way in ((STOPPED, off, before), (RESIZED, resized, chosen), (STARTED, on, chosen)):
            course.log.add(course.now, rows[mask], event, ways.gpus[way[mask]], ways.type[way[mask]])
        course.stops[rows[off]] += 1
        self.chosen[rows] = chosen
        self.bill(rows, chosen, changed, runs, np.arange(len(rows)) if decision.order is None else decision.order)
        course.begin(rows[on])
        if self.in_slots:
            self.plan_ends(rows[runs], None if decision.ends is None else decision.ends[runs])

    def plan_ends(self, running: Ints, ends: Floats | None) -> None:
        """Until when jobs hold what they have. A change that is planned for then, or later, waits for what happens."""
        if ends is None:
            slot_s = max(self.terms.slot_s, 1.0)
            ends = self.course.now + np.ceil(np.ceil(self.rest(running)) / slot_s) * slot_s
        self.due[running] = ends + self.charge[running]
        if self.wake >= min(self.course.next_arrival(), ends.min(initial=np.inf)):
            self.wake = np.inf

    def bill(self, rows: Ints, chosen: Ints, changed: Bools, runs: Bools, order: Ints) -> None:
        """Seconds without progress of jobs that start, change, or just run, as the semantics say."""
        terms, gpus = self.terms, np.where(runs, self.ways.gpus[chosen], self.course.jobs.gpus[rows])
        restart = terms.restart_every > 0 and self.events > 0 and self.events % terms.restart_every == 0
        if terms.layouts == "of places":
            new = self.new_places(gpus, order[runs[order]])
        elif terms.layouts == "none":
            new = np.ones(len(rows), bool)
        else:
            if restart:
                self.used[:] = False
            new = ~self.used[rows, chosen]
            self.used[rows[runs], chosen[runs]] = True
        if restart:
            self.places.clear()
        cost = terms.charge_s + np.where(new, terms.per_doubling_s * (np.log2(gpus) + 1) + restart * terms.restart_s, 0)
        if terms.charge == "every submission":
            if self.course.next_arrival() < np.inf:
                self.charge[rows] = cost
        elif terms.charge == "every decision":
            self.charge[rows] = np.where(runs, cost, 0.0)
        else:
            self.charge[rows] = np.where(changed, cost, np.where(runs, self.charge[rows], 0.0))

    def new_places(self, gpus: Ints, running: Ints) -> Bools:
        """(k,) who is where nobody of that size was since the last restart; the largest jobs come first."""
        new = np.zeros(len(gpus), bool)
        placed = running[np.argsort(-gpus[running], kind="stable")]
        first = np.cumsum(gpus[placed]) - gpus[placed]
        for job, place in zip(placed.tolist(), zip(first.tolist(), gpus[placed].tolist(), strict=True), strict=True):
            new[job] = place not in self.places
            self.places.add(place)
        return new

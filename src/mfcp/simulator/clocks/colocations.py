"""The clock of colocations: at every submission and end, a policy says which jobs share which accelerators."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SettingsError, SolverError
from mfcp.simulator.course import Course
from mfcp.simulator.kernels.books import MOVED, STARTED, STOPPED
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.colocating import Colocating, Colocation, Present
from mfcp.simulator.semantics import EventTerms


def run_colocations(course: Course, policy: Colocating, terms: EventTerms, speed: Floats) -> Outcome:
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Args:
        speed: (n,) of each job; its resources are as much faster as it is.

    Raises:
        SettingsError: the stages of the jobs are not known.
        SolverError: the policy gives what there is not, or lets everybody wait for ever.
    """
    if course.jobs.stages.shape[1] == 0:
        raise SettingsError(
            f"policy '{policy.name}' lets jobs share accelerators by the stages of an iteration; the trace has no "
            "columns loading, computing and sending, in seconds"
        )
    run = _Colocations(course, policy, terms, speed)
    while run.step():
        pass
    return course.outcome({"decisions": run.decisions})


class _Colocations:
    """What the clock needs besides the course.

    Attributes:
        active: (n,) whether a job has come and not gone; pace: (n,) seconds of an iteration, infinite while it waits.
        charge: (n,) seconds still to pass without progress.
        places: accelerators of each job that runs; part: (n,) how many, those that others share counted in parts.
        node: (G,) of each accelerator.
    """

    def __init__(self, course: Course, policy: Colocating, terms: EventTerms, speed: Floats) -> None:
        n, sizes = len(course.jobs.id), course.cluster.size
        self.course, self.policy, self.terms, self.decider = course, policy, terms, policy.start()
        self.alone, self.stages = course.jobs.step / speed, course.jobs.stages / speed[:, None]
        self.active, self.pace = np.zeros(n, bool), np.full(n, np.inf)
        self.charge, self.part = np.zeros(n), np.zeros(n)
        self.node, self.decisions = np.repeat(np.arange(len(sizes)), sizes), 0
        self.places: dict[int, Ints] = {}

    def step(self) -> bool:
        """To the next event, and decide; whether anything is left to happen."""
        course, running = self.course, np.flatnonzero(np.isfinite(self.pace))
        ends = course.now + (course.left[running] - course.goal[running]) * self.pace[running]
        if self.terms.end_has_charge:
            ends += self.charge[running]
        event = min(course.next_arrival(), ends.min(initial=np.inf))
        if event == np.inf:
            if self.active.any():
                raise SolverError(f"policy '{self.policy.name}' lets jobs wait when all others have ended")
            return False
        self.pass_time(event, running, ends <= event)
        self.active[course.arrive()] = True
        used = self.decide(np.flatnonzero(self.active)) if self.active.any() else 0
        course.in_use.append((event, used))
        return True

    def pass_time(self, event: float, running: Ints, over: Bools) -> None:
        """Every job goes on until the event; some end there."""
        course, elapsed = self.course, event - self.course.now
        course.executed[running] += elapsed
        course.held[running] += elapsed * self.part[running]
        progress = np.maximum(elapsed - self.charge[running], 0.0) / self.pace[running]
        self.charge[running] = np.maximum(self.charge[running] - elapsed, 0.0)
        course.left[running] = np.maximum(course.left[running] - progress, course.goal[running])
        rows, course.now = running[over], event
        again = course.end(rows, np.full(len(rows), event), course.jobs.gpus[rows], self.first_node(rows))
        self.active[rows], self.pace[rows] = again, np.inf
        for job in rows.tolist():
            del self.places[job]

    def first_node(self, rows: Ints) -> Ints:
        """(k,) node of the first accelerator of each job that runs."""
        return np.array([self.node[self.places[job][0]] for job in rows.tolist()], np.int64)

    def decide(self, active: Ints) -> int:
        """Ask the policy who runs where, and charge those who start or move; how many accelerators are in use."""
        course, jobs = self.course, self.course.jobs
        before = np.zeros((len(active), len(self.node)), bool)
        for row, places in zip(np.searchsorted(active, list(self.places)), self.places.values(), strict=True):
            before[row, places] = True
        self.decisions += 1
        present = Present(
            course.now, active, jobs.gpus[active], jobs.deadline[active], self.alone[active], self.stages[active],
            jobs.overhead[active], course.believed_left(active) * self.alone[active], course.executed[active], before,
            self.node,
        )  # fmt: skip
        found = self.decider.decide(present)
        self.check(present, found)
        was, runs = np.isfinite(self.pace[active]), np.isfinite(found.step)
        off, on, elsewhere = was & ~runs, runs & ~was, was & runs & (before != found.holds).any(axis=1)
        course.log.add(course.now, active[off], STOPPED, jobs.gpus[active[off]], self.first_node(active[off]))
        course.stops[active[off]] += 1
        self.pace[active] = found.step
        self.places = {
            job: np.flatnonzero(held) for job, held in zip(active[runs].tolist(), found.holds[runs], strict=True)
        }
        for event, mask in ((STARTED, on), (MOVED, elsewhere)):
            course.log.add(course.now, active[mask], event, jobs.gpus[active[mask]], self.first_node(active[mask]))
        charged = runs if self.terms.charge == "every event" else on | elsewhere
        if self.terms.charge == "resumes":
            charged &= ~np.isnan(course.started[active])
        self.charge[active] = np.where(charged, found.overhead, np.where(runs, self.charge[active], 0.0))
        crowd = found.holds.sum(axis=0)
        self.part[active[runs]] = (found.holds[runs] / np.maximum(crowd, 1)).sum(axis=1)
        course.begin(active[on])
        course.check_goes_on(bool(runs.any()), self.policy)
        return int((crowd > 0).sum())

    def check(self, present: Present, found: Colocation) -> None:
        """What the policy gives there must be."""
        runs = np.isfinite(found.step)
        asked = np.where(runs, present.gpus, 0)
        crowded = found.holds.sum(axis=0).max(initial=0) > self.policy.together
        if crowded or (found.holds.sum(axis=1) != asked).any() or not (found.step > 0).all():
            raise SolverError(
                f"policy '{self.policy.name}' gives a job other accelerators than it asks for, puts more than "
                f"{self.policy.together} on one, or takes no time for an iteration"
            )

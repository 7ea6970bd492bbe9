"""The clock of rounds: which jobs run is decided every round, how types are shared only at resets.

A policy gives each job a share of the time on each type of accelerator. In a round the types are filled in the order
of share over time received, so that over many rounds every job gets its share (Narayanan et al., "Heterogeneity-aware
cluster scheduling", OSDI 2020). The next round starts when the last job of this one is through.
"""

from __future__ import annotations

from random import Random

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.batches import Batches
from mfcp.simulator.clocks.batch_sizes import BatchSizes
from mfcp.simulator.course import Course
from mfcp.simulator.kernels.books import MOVED, STARTED, STOPPED
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.semantics import RoundTerms

NEVER_GIVEN = 1e9  # what a share weighs on a type that the job has not been on


class RoundsRun:
    """What rounds need besides the course; arguments as of `mfcp.simulator.simulation.simulate`.

    Attributes:
        speed: (n, K) steps per second of each job on each type.
        share: (n, K) of the last reset; given: (n,) whether the reset knew the job.
        time: (n, K) seconds on a type since the reset; total: (K,) of all jobs; deficit: (n, K) owed from before.
        active: jobs that have come and not gone, in the order of their coming.
        place: (n,) the type in this round, or -1; before: (n,) in the last.
        told: (n,) accelerators that the log last told of.
        isolated, split, seen: (n,) seconds that the steps so far would have taken under equal splits, the speed under
            the last, and the steps that were left then.
    """

    def __init__(
        self,
        course: Course,
        policy: Shares,
        semantics: RoundTerms,
        speed: Floats,
        seed: int,
        batches: Batches | None = None,
    ) -> None:
        n, kinds = speed.shape
        self.course, self.policy, self.terms, self.size = course, policy, semantics, course.cluster.by_type
        self.speed = speed / course.jobs.step[:, None]
        self.sizes = None if batches is None else BatchSizes(batches, course, self.speed)
        self.share, self.time, self.deficit = (np.zeros((n, kinds)) for _ in range(3))
        self.given, self.total, self.start_s = np.zeros(n, bool), np.zeros(kinds), semantics.round_s / 2
        self.place, self.before, self.told = np.full(n, -1), np.full(n, -1), np.zeros(n, np.int64)
        self.active, self.known = np.empty(0, np.int64), np.empty(0, np.int64)
        self.isolated, self.split, self.seen = np.zeros(n), np.full(n, np.nan), course.left.copy()
        self.random, self.order = Random(seed), Random(seed + 5)
        self.shares = policy.watch()
        self.last_reset, self.changed, self.rounds, self.resets = 0.0, False, 0, 0

    def until(self, last: int | None) -> Outcome:
        """Run all jobs up to a row, or all, to their end.

        Raises:
            SettingsError: the policy gives shares that are no numbers, as of unknown durations.
            SolverError: it lets jobs wait for ever.
        """
        last = len(self.course.jobs.id) - 1 if last is None else last
        while self.step(last):
            pass
        return self.course.outcome({"rounds": self.rounds, "resets": self.resets})

    def step(self, last: int) -> bool:
        """A round; whether any job up to `last` is still to run."""
        course = self.course
        self.arrive()
        if self.changed and (course.now >= self.last_reset + self.terms.reset_s or self.last_reset == 0.0):
            self.reset()
        types = list(range(len(self.size)))
        if self.policy.blind:
            self.order.shuffle(types)
        runs = self.fill(types)
        self.tell()
        course.check_goes_on(bool(runs.any()), self.policy)
        if runs.any():
            self.run(self.active[self.place[self.active] >= 0])
        elif course.next_arrival() < np.inf:
            course.now = max(course.now, course.next_arrival())
        elif len(self.active):
            course.now = self.last_reset + self.terms.reset_s  # no job fits the shares: wait for the next reset
            self.changed = True
        if course.arrived <= last:
            return True
        return bool(len(self.active) and self.active[0] <= last)

    def arrive(self) -> None:
        """New jobs have had half a round everywhere, so that no share divides by zero."""
        new = self.course.arrive()
        if len(new):
            self.active, self.changed = np.concatenate([self.active, new]), True
            self.enter(new)

    def enter(self, new: Ints) -> None:
        """Open the books of new jobs."""
        self.time[new] = self.start_s
        self.total += self.start_s * len(new)

    def reset(self) -> None:
        """Book what is owed, and ask for new shares."""
        rows = self.active
        self.settle(rows, self.course.now - self.last_reset)
        self.given[rows] = True
        self.last_reset, self.changed, self.resets = self.course.now, False, self.resets + 1
        if len(rows):
            shares = self.shares(self.moment(rows))
            self.policy.check_known(shares)
            self.set_shares(rows, shares)

    def settle(self, rows: Ints, elapsed: float) -> None:
        """Book what is owed of the seconds since the last reset, and count time anew."""
        received = self.time[rows] - self.start_s
        owed = self.share[rows] * elapsed - received
        self.deficit[rows] += np.where(self.given[rows, None], owed, 0.0)
        self.time[rows] = self.start_s
        self.total[:] = self.start_s * len(rows)

    def set_shares(self, rows: Ints, shares: Floats) -> None:
        """Take what the policy has solved for."""
        self.share[rows] = shares

    def moment(self, rows: Ints) -> Moment:
        """What the policy sees."""
        course = self.course
        gone = np.setdiff1d(self.known, rows)[::-1]
        freed = tuple(int(kind) for job in gone for kind in np.flatnonzero(self.share[job] > 0))
        old = rows[~np.isnan(self.split[rows])]
        self.isolated[old] += np.maximum(self.seen[old] - course.left[old], 0.0) / self.split[old]
        new = np.isin(rows, self.known, invert=True)
        moment = Moment(
            rows, course.jobs.gpus[rows], self.speed[rows], course.believed_left(rows),
            course.now - course.jobs.submit[rows], self.isolated[rows], np.where(new[:, None], 0.0, self.share[rows]),
            freed, self.size, self.random, course.jobs.deadline[rows],
        )  # fmt: skip
        self.split[rows], self.seen[rows], self.known = moment.equal_split, course.left[rows], rows
        return moment

    def fill(self, types: list[int]) -> Bools:
        """Give the types to jobs in the order of their priorities, then deficits, then shares, largest first.

        Returns:
            (k,) which of the active jobs run.
        """
        rows = self.active
        self.before[rows] = self.place[rows]
        self.place[rows] = -1
        asked = self.course.jobs.gpus
        for kind in types:
            wants = (self.speed[rows, kind] > 0) & (self.place[rows] < 0)
            if self.policy.strict:
                wants &= self.share[rows, kind] > 0
            waiting, free = rows[wants], int(self.size[kind])
            if asked[waiting].sum() <= free:
                self.place[waiting] = kind
                continue
            waiting = waiting[self.order_on(kind, waiting)]
            while len(waiting):
                waiting = waiting[asked[waiting] <= free]
                need = np.cumsum(asked[waiting])
                fits = int(np.searchsorted(need, free, side="right"))
                self.place[waiting[:fits]] = kind
                free -= int(need[fits - 1]) if fits else 0
                waiting = waiting[fits:]
        self.place[rows[~self.given[rows]]] = -1  # a job that the shares do not know yet has blocked a place, no more
        runs: Bools = self.place[rows] >= 0
        return runs

    def order_on(self, kind: int, rows: Ints) -> Ints:
        """(k,) positions of jobs by what they are owed on a type, largest first."""
        share, time, total = self.share[rows, kind], self.time[rows, kind], self.total[kind]
        given = (time > 0) & (total > 0)
        part = np.where(given, time / (total if total > 0 else 1.0), 1.0)
        priority = np.where(given, share / part, share * NEVER_GIVEN)
        return np.lexsort((-share, -self.deficit[rows, kind], -np.where(self.given[rows], priority, 0.0)))

    def tell(self) -> None:
        """Log which jobs are taken off, start or move at the beginning of a round."""
        course, rows = self.course, self.active
        now, before, gpus = self.place[rows], self.before[rows], self.counted(rows)
        off, on, moved = (before >= 0) & (now < 0), (before < 0) & (now >= 0), (before >= 0) & (now >= 0)
        moved &= (before != now) | (self.told[rows] != gpus)
        course.stops[rows[off]] += 1
        self.told[rows] = np.where(off, self.told[rows], gpus)
        for event, mask in ((STOPPED, off), (STARTED, on), (MOVED, moved)):
            course.log.add(course.now, rows[mask], event, self.told[rows[mask]], now[mask])

    def run(self, rows: Ints) -> None:
        """One round: every job placed runs; it ends with the last."""
        course, terms, kind = self.course, self.terms, self.place[rows]
        self.rounds += 1
        speed, rest = self.pace(rows, kind), course.left[rows] - course.goal[rows]
        whole = np.floor(speed * terms.round_s)
        whole = np.where(whole == 0, speed * terms.round_s, whole)  # a step longer than a round goes on in the next
        steps = np.minimum(whole, rest)
        took = self.until_all(rows, steps / speed)
        lost = np.zeros(len(rows))
        if terms.cut_s > 0 and self.rounds > 1:
            lost = np.where((self.before[rows] < 0) & (took > terms.round_s - 5.0), terms.cut_s, lost)
            cut = steps * (1 - lost / np.maximum(took, terms.cut_s))
            steps = np.where(lost > 0, np.where(cut >= 1, np.floor(cut), cut), steps)
        course.begin(rows)
        course.left[rows] -= steps
        self.book(rows, kind, took - lost)
        course.executed[rows] += took
        course.held[rows] += took * self.part(rows)
        over = steps >= rest
        now, course.now = course.now, course.now + float(took.max())
        again = course.end(rows[over], now + took[over], self.counted(rows[over]), kind[over])
        self.place[rows[over]] = -1
        if self.sizes is not None:
            self.sizes.take(rows[~over])
            self.sizes.restart(rows[over][again])
        gone = rows[over][~again]
        self.changed |= len(gone) > 0
        self.leave(gone)
        self.active = self.active[np.isin(self.active, gone, invert=True)]
        if self.sizes is not None:
            self.sizes.look(self.active)

    def pace(self, rows: Ints, kind: Ints) -> Floats:
        """(k,) steps per second of jobs where they run in this round."""
        return np.asarray(self.speed[rows, kind])

    def until_all(self, rows: Ints, took: Floats) -> Floats:
        """(k,) seconds after which jobs give back what they have, of those that they need."""
        return took

    def part(self, rows: Ints) -> Floats:
        """(k,) accelerators of jobs that run, in parts where they are shared."""
        return self.course.jobs.gpus[rows].astype(float)

    def counted(self, rows: Ints) -> Ints:
        """(k,) accelerators of jobs, every one counted once."""
        return np.asarray(self.course.jobs.gpus[rows])

    def book(self, rows: Ints, kind: Ints, took: Floats) -> None:
        """Count time received."""
        self.time[rows, kind] += took
        np.add.at(self.total, kind, took)

    def leave(self, gone: Ints) -> None:
        """Close the books of jobs that have ended; they are still among the active."""
        for job in gone:
            self.total -= self.time[job]

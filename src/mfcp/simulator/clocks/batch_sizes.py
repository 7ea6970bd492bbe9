"""Which batch size is in force in rounds, by the rules of Shockwave's simulator (Zheng et al., NSDI 2023).

A job trains so many epochs, whatever its batch; of a larger batch an epoch has fewer and slower steps. After every
round each job looks at the size that its epoch wants; the next time it has run, it takes one size towards that.
Progress then counts in whole epochs, a begun one as done, and the epochs to do stay as many.
"""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.simulator.batches import Batches
from mfcp.simulator.course import Course


class BatchSizes:
    """The sizes in force in one run.

    Attributes:
        rung, wanted: (n,) which of a job's sizes, ascending, is in force, and the one to take after its next round.
        total: (n,) steps to do at the size in force.
    """

    def __init__(self, batches: Batches, course: Course, speed: Floats) -> None:
        n = len(course.jobs.id)
        self.course, self.speed, self._alone = course, speed, speed.copy()
        self.changes = np.isin(np.arange(n), batches.job)
        # Every size of a job once, ascending: its ladder.
        pairs = np.stack([batches.job, batches.size])
        (owner, self._size), at, of = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        self._rate, self._foot = batches.rate[at], np.searchsorted(owner, np.arange(n))
        self._phase_rung = of.ravel() - self._foot[batches.job]
        self._span = int(batches.epoch.max(initial=0)) + 2
        self._phase = batches.job * self._span + batches.epoch
        first = np.searchsorted(batches.job, np.arange(n))[self.changes]
        self._start, self._samples, self._ahead = (np.zeros(n, np.int64) for _ in range(3))
        self._start[self.changes] = self._phase_rung[first]
        self._samples[self.changes], self._ahead[self.changes] = batches.samples[first], batches.ahead[first]
        self.rung, self.wanted = self._start.copy(), self._start.copy()
        self.total = course.jobs.iterations.astype(float)

    def look(self, rows: Ints) -> None:
        """Jobs see which size their epoch wants; what they have seen before and not taken yet stands."""
        rows = rows[self.changes[rows]]
        rows = rows[self.wanted[rows] == self.rung[rows]]
        epoch = np.ceil((self.total[rows] - self.course.left[rows]) / self._per_epoch(rows)).astype(np.int64)
        now, later = (
            self._phase_rung[
                np.searchsorted(self._phase, rows * self._span + np.minimum(e, self._span - 1), "right") - 1
            ]
            for e in (epoch, epoch + self._ahead[rows])
        )
        target = np.where(self._ahead[rows] > 0, np.maximum(now, later), now)
        self.wanted[rows] = self.rung[rows] + np.sign(target - self.rung[rows])

    def take(self, rows: Ints) -> None:
        """Jobs that have run take the size that they have seen to be wanted."""
        rows = rows[self.wanted[rows] != self.rung[rows]]
        course, left, total = self.course, self.course.left[rows], self.total[rows]
        before, old = self._per_epoch(rows), self._in_force(rows)
        self.rung[rows] = self.wanted[rows]
        after, new = self._per_epoch(rows), self._in_force(rows)
        epochs, steps = np.ceil(total / before), np.ceil(total * old / new)
        steps = np.where(np.ceil(steps / after) == epochs, steps, after * epochs)
        self.total[rows] = steps
        course.left[rows] = np.maximum(steps - np.ceil((total - left) / before) * after, 0.0)
        for each in (course.goal, course.more):
            each[rows] *= steps / total
        self._set_speed(rows)

    def restart(self, rows: Ints) -> None:
        """Jobs begin anew, with their first size."""
        self.rung[rows] = self.wanted[rows] = self._start[rows]
        self.total[rows] = self.course.jobs.iterations[rows]
        self._set_speed(rows[self.changes[rows]])

    def _per_epoch(self, rows: Ints) -> Floats:
        """(k,) steps of an epoch at the sizes in force."""
        result: Floats = np.ceil(self._samples[rows] / self._in_force(rows))
        return result

    def _in_force(self, rows: Ints) -> Ints:
        """(k,) samples of a batch."""
        result: Ints = self._size[self._foot[rows] + self.rung[rows]]
        return result

    def _set_speed(self, rows: Ints) -> None:
        rate = self._rate[self._foot[rows] + self.rung[rows]] / self._rate[self._foot[rows] + self._start[rows]]
        self.speed[rows] = self._alone[rows] * rate[:, None]

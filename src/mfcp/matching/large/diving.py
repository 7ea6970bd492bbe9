"""Long tasks are fixed on clusters before the rest is priced: the relaxation splits them, a plan cannot.

Where the relaxation splits a long task, its prices are wrong: they fill clusters with the small tasks of a round in
which half of the long task runs elsewhere. So long tasks are fixed first, some at a time, each on the cluster that has
most of it. The relaxation of the tasks that remain then gives the prices for the next ones (diving [Berthold2006]_).
It works on a sample of the tasks. Where a few tasks are longer than all the others together need, prices mean little
at first, and an assignment puts each of those on a cluster of its own. A fixed task leaves the round: its cluster has
less time free until the round's bound.

.. [Berthold2006] Berthold, Primal heuristics for mixed integer programs, diploma thesis, TU Berlin, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats, Ints
from mfcp.matching.large.candidates import Row
from mfcp.matching.large.column_generation import generate
from mfcp.matching.large.linear_relaxation import TINY, Relaxation, draw
from mfcp.matching.large.shards import Threads, whole_plan

LONG_TASK = 0.1  # share of a cluster's free time from which on a task is long
_EASY = 0.2  # share of the bound; where the other tasks need less, there is room for long ones anyway
_PART, _ENOUGH = 0.5, 30  # a share of the long tasks is fixed at once, at least one for so many clusters
_SAMPLE = (8, 32, 4000)  # tasks of the sample: per cluster at least and at most, and in all; long ones are always in it
_COUNTS = 0.01  # share from which a candidate counts


@dataclass(frozen=True)
class FixedTasks:
    """Long tasks on their clusters, and the relaxation of the rest.

    Attributes:
        long_tasks: (g,).
        cluster: (g,).
        rest: the relaxation of the other tasks.
        others: (N - g,) which they are.
        vector: (D,) prices that nearly solve it.
    """

    long_tasks: Ints
    cluster: Ints
    rest: Relaxation
    others: Ints
    vector: Floats

    def together(self, cluster: NDArray[np.int32], share: Floats) -> tuple[NDArray[np.int32], Floats]:
        """(N, W) candidates and shares of all tasks, from those of the others."""
        shape = (len(self.long_tasks) + len(self.others), cluster.shape[1])
        whole, shares = np.full(shape, -1, np.int32), np.zeros(shape)
        whole[self.long_tasks, 0], shares[self.long_tasks, 0] = self.cluster, 1.0
        whole[self.others], shares[self.others] = cluster, share
        return whole, shares


def fix_long_tasks(
    data: Relaxation, vector: Floats, *, floor: float, spare: float, longest: bool, reach: float, width: int,
    deadline: float,
) -> FixedTasks | None:  # fmt: skip
    """Put long tasks on clusters; None where there are no long tasks, or no room for them.

    Args:
        data: of plans below some makespan; all tasks, each of mass 1.
        vector: (D,) prices that nearly solve it.
        floor: bound of the objective.
        spare: share of what is free that lies beyond that bound; taken only by long tasks that fit nowhere else.
        longest: whether that bound is of the longest tasks and far above what the others need; then tasks above half
            of it are fixed first, where they are fastest.
        reach: largest sum of reliability that its tasks can have.
        width: candidates per task.
        deadline: `clock.seconds()` after which long tasks are left as they are.
    """
    few, many, size = _SAMPLE
    sample, tasks = draw(data, vector, int(np.clip(size, few * len(data.T), many * len(data.T))), reach)
    places = _Places(sample, spare)
    places.fix_those_with_one_cluster()
    if longest:
        places.fix_longest(floor)
    while True:
        part = _without(sample, *places.fixed())
        shards, start = Threads(part, width), _scaled(vector, sample, part)
        found = generate(part, shards, start, width=width, tolerance=1e-3, off=0.05, deadline=deadline, floor=floor)
        if not np.isfinite(found.value) or (longest and found.value < _EASY * floor):
            break
        vector = _scaled(found.vector, part, sample)
        if not places.fix_some(part, *whole_plan(shards)):
            break
    chosen, clusters = places.fixed()
    if not len(chosen):
        return None
    long_tasks = tasks[chosen]
    others = np.setdiff1d(np.arange(len(data.mass)), long_tasks)
    rest = _without(data, long_tasks, clusters)
    return FixedTasks(long_tasks, clusters, rest, others, _scaled(vector, data, rest))


class _Places:
    """The clusters that tasks of a sample are fixed on, and what is left free.

    Args:
        sample: the relaxation that the tasks belong to.
        spare: share of what is free that only tasks take that fit nowhere else.
    """

    def __init__(self, sample: Relaxation, spare: float) -> None:
        self.sample, self.free = sample, np.maximum(sample.cap, 0.0)
        self.cluster = np.full(len(sample.mass), -1)
        self.left, self.beyond = self.free.copy(), self.free * spare

    def fixed(self) -> tuple[Ints, Ints]:
        """Tasks of the sample, and their clusters."""
        chosen = np.flatnonzero(self.cluster >= 0)
        return chosen, self.cluster[chosen]

    def fix(self, j: np.intp, i: np.intp) -> None:
        """Put task j on cluster i."""
        self.cluster[j] = i
        self.left[i] -= self.sample.T[i, j]

    def fix_those_with_one_cluster(self) -> None:
        """Fix long tasks that fit on one cluster only: the relaxation would have that cluster empty for their sake."""
        T = self.sample.T
        fits = self.free[:, None] >= T
        only = fits.argmax(axis=0)
        for j in np.flatnonzero((fits.sum(axis=0) == 1) & (self.sample.mass == 1.0)):
            if LONG_TASK * self.free[only[j]] < T[only[j], j] <= self.left[only[j]]:
                self.fix(j, only[j])

    def fix_longest(self, floor: float) -> None:
        """Fix tasks that take over half of the makespan `floor` everywhere, each on a cluster of its own."""
        T = self.sample.T
        fits = (self.free[:, None] >= T) & (self.left[:, None] >= T) & (self.cluster < 0) & (self.sample.mass == 1.0)
        for j, i in _apart(np.where(fits, T, np.inf), floor):
            self.fix(j, i)

    def fix_some(self, part: Relaxation, cluster: NDArray[np.int32], share: Floats) -> int:
        """Fix some of the long tasks that are left where the relaxation has most of them; returns how many.

        Args:
            part: the relaxation of the tasks that are not fixed.
            cluster, share: (n, W) of its plan.
        """
        open_ = np.flatnonzero(self.cluster < 0)
        filled = fills(replace(part, cap=self.free), cluster, share).max(axis=1)
        long_tasks = np.flatnonzero((filled > LONG_TASK) & (part.mass == 1.0))
        some = max(math.ceil(_PART * len(long_tasks)), len(self.free) // _ENOUGH)
        count = 0
        for j in long_tasks[np.argsort(-share[long_tasks].max(axis=1), kind="stable")][:some]:
            seconds, left = part.T[cluster[j], j], self.left[cluster[j]]
            fitting = (cluster[j] >= 0) & (seconds <= left)
            if not fitting.any():
                continue
            late = seconds > left - self.beyond[cluster[j]]
            self.fix(open_[j], cluster[j, np.lexsort((-share[j], late, ~fitting))[0]])
            count += 1
        return count


def _apart(T: Floats, floor: float) -> Iterator[tuple[np.intp, np.intp]]:
    """Tasks that take over half of `floor` everywhere, each on a cluster of its own; none if that cannot be."""
    from scipy.optimize import linear_sum_assignment

    long_tasks = np.flatnonzero((2.0 * T.min(axis=0) > floor) & np.isfinite(T).any(axis=0))
    try:
        cluster, long_task = linear_sum_assignment(T[:, long_tasks])
    except ValueError:  # no such matching
        return iter(())
    return zip(long_tasks[long_task], cluster, strict=True)


def fills(data: Relaxation, cluster: NDArray[np.int32], share: Floats) -> Floats:
    """(N, W) share of a cluster's free time that each candidate fills; 0 where its share of the task is tiny."""
    at = np.maximum(cluster, 0)
    counts = (cluster >= 0) & (share > _COUNTS)
    seconds = np.where(counts, data.T[at, np.arange(len(cluster))[:, None]], 0.0)
    filled: Floats = seconds / np.maximum(data.cap, TINY)[at]
    return filled


def _without(data: Relaxation, long_tasks: Ints, cluster: Ints) -> Relaxation:
    """The relaxation of the other tasks, with these long tasks on these clusters, in what they leave free."""
    if not len(long_tasks):
        return data
    others, free = np.setdiff1d(np.arange(len(data.mass)), long_tasks), np.maximum(data.cap, 0.0)
    taken = np.bincount(cluster, data.T[cluster, long_tasks], minlength=len(free))
    left = free - taken
    rows = []
    rest = data.take(others, data.mass[others])
    for whole, row in zip(data.rows, rest.rows, strict=True):
        assert whole.use is not None
        used = np.bincount(cluster, whole.use[cluster, long_tasks], minlength=len(free))
        rows.append(Row(row.name, row.use, None, np.maximum(row.limit - used, 0.0)))
    return replace(
        rest,
        rows=rows,
        speed=np.where(left > 0, data.speed * free / np.maximum(left, TINY), data.speed),
        cap=np.where(left > 0, left, -1.0),
        need=max(data.need - float(data.A[cluster, long_tasks].sum()), 0.0),
    )


def _scaled(vector: Floats, before: Relaxation, after: Relaxation) -> Floats:
    """The prices at which a second of every cluster costs what it did before."""
    ratio = np.ones((len(before.T), before.width))
    ratio[:, 0] = before.speed / after.speed
    scaled: Floats = vector * np.append(ratio, 1.0)
    return scaled

"""Giant tasks settled before the rest: the relaxation splits what fills much of a cluster, a plan cannot.

Around a giant that it splits, the relaxation's prices are wrong: they fill clusters with the small tasks of a round in
which half the giant is elsewhere. So giants are settled first, some at a time on the clusters that have most of them,
each time at the prices that the last ones leave (diving [Berthold2006]_), on a sample of the other tasks. Where a few
are longer than all the others need, prices mean little at first; those find clusters of their own by assignment. A
settled giant is no task any more but work that its cluster has to do anyway, of what is free until the round's bound.

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

GIANT = 0.1  # of what is free, from where on tasks are settled
HUGE, SPLIT = 0.3, 0.4  # see `split`: from there on giants mislead more than a search can mend
_EASY = 0.2  # of the bound; a rest that needs less has room for its giants anyway
_PART, _ENOUGH = 0.5, 30  # of the giants that are settled at once; or one for so many clusters, where that is more
_SAMPLE = (8, 32, 4000)  # tasks of the sample: per cluster at least and at most, and in all; giants are always in it
_COUNTS = 0.01  # share from which a candidate counts


@dataclass(frozen=True)
class Settled:
    """Giants on their clusters, and the relaxation of the rest.

    Attributes:
        giants: (g,) tasks.
        cluster: (g,).
        rest: the relaxation of the other tasks.
        others: (N - g,) which they are.
        vector: (D,) prices that nearly solve it.
    """

    giants: Ints
    cluster: Ints
    rest: Relaxation
    others: Ints
    vector: Floats

    def together(self, cluster: NDArray[np.int32], share: Floats) -> tuple[NDArray[np.int32], Floats]:
        """(N, W) candidates and shares of all tasks, from those of the others."""
        shape = (len(self.giants) + len(self.others), cluster.shape[1])
        whole, shares = np.full(shape, -1, np.int32), np.zeros(shape)
        whole[self.giants, 0], shares[self.giants, 0] = self.cluster, 1.0
        whole[self.others], shares[self.others] = cluster, share
        return whole, shares


def settle(
    data: Relaxation, vector: Floats, *, floor: float, spare: float, longest: bool, reach: float, width: int,
    deadline: float,
) -> Settled | None:  # fmt: skip
    """Find places for giants; None where there are none, or no places.

    Args:
        data: of plans below some makespan; all tasks, each of mass 1.
        vector: (D,) prices that nearly solve it.
        floor: bound of the objective.
        spare: share of what is free that lies beyond that bound; taken only by giants that fit nowhere else.
        longest: whether that bound is of the longest tasks and far above what the others need; then tasks above half
            of it are settled first, where they are fastest.
        reach: largest sum of reliability that its tasks can have.
        width: candidates per task.
        deadline: time.monotonic() after which giants are left as they are.
    """
    few, many, size = _SAMPLE
    sample, tasks = draw(data, vector, int(np.clip(size, few * len(data.T), many * len(data.T))), reach)
    where, free = np.full(len(tasks), -1), np.maximum(data.cap, 0.0)
    left, beyond = free.copy(), free * spare

    def put(j: np.intp, i: np.intp, seconds: float) -> None:
        where[j] = i
        left[i] -= seconds

    fits = free[:, None] >= sample.T
    only = fits.argmax(axis=0)  # of a giant that fits nowhere else: the relaxation would care for that cluster alone
    for j in np.flatnonzero((fits.sum(axis=0) == 1) & (sample.mass == 1.0)):
        if GIANT * free[only[j]] < sample.T[only[j], j] <= left[only[j]]:
            put(j, only[j], sample.T[only[j], j])
    if longest:
        fits &= (left[:, None] >= sample.T) & (where < 0) & (sample.mass == 1.0)
        for j, i in _apart(np.where(fits, sample.T, np.inf), floor):
            put(j, i, sample.T[i, j])
    while True:
        open_ = np.flatnonzero(where < 0)
        part = _without(sample, np.flatnonzero(where >= 0), where[where >= 0])
        shards, start = Threads(part, width), _scaled(vector, sample, part)
        found = generate(part, shards, start, width=width, tolerance=1e-3, off=0.05, deadline=deadline, floor=floor)
        if not np.isfinite(found.value) or (longest and found.value < _EASY * floor):
            break
        vector = _scaled(found.vector, part, sample)
        cluster, share = whole_plan(shards)
        filled = fills(replace(part, cap=free), cluster, share).max(axis=1)
        giants = np.flatnonzero((filled > GIANT) & (part.mass == 1.0))
        some = max(math.ceil(_PART * len(giants)), len(free) // _ENOUGH)
        giants = giants[np.argsort(-share[giants].max(axis=1), kind="stable")][:some]
        placed = 0
        for j in giants:
            fitting = (cluster[j] >= 0) & (part.T[cluster[j], j] <= left[cluster[j]])
            if not fitting.any():
                continue
            early = part.T[cluster[j], j] <= left[cluster[j]] - beyond[cluster[j]]
            i = cluster[j, np.lexsort((-share[j], ~early, ~fitting))[0]]
            put(open_[j], i, part.T[i, j])
            placed += 1
        if not placed:
            break
    settled = np.flatnonzero(where >= 0)
    if not len(settled):
        return None
    giants, places = tasks[settled], where[settled]
    others = np.setdiff1d(np.arange(len(data.mass)), giants)
    rest = _without(data, giants, places)
    return Settled(giants, places, rest, others, _scaled(vector, data, rest))


def _apart(T: Floats, floor: float) -> Iterator[tuple[np.intp, np.intp]]:
    """Tasks that take over half of `floor` everywhere, each on a cluster of its own; none if that cannot be."""
    from scipy.optimize import linear_sum_assignment

    giants = np.flatnonzero((2.0 * T.min(axis=0) > floor) & np.isfinite(T).any(axis=0))
    try:
        cluster, giant = linear_sum_assignment(T[:, giants])
    except ValueError:  # no such matching
        return iter(())
    return zip(giants[giant], cluster, strict=True)


def split(data: Relaxation, cluster: NDArray[np.int32], share: Floats) -> float:
    """How much of the clusters' room is in parts of split giants, in units of M / N, what any plan loses.

    Args:
        data: of plans below some makespan.
        cluster, share: (N, W) of a plan of the relaxation.
    """
    M, N = len(data.T), len(cluster)
    filled = fills(data, cluster, share).max(axis=1)
    parts = np.where(filled > HUGE, filled * (1.0 - share.max(axis=1)), 0.0)
    return float(parts.sum() / M * N / M)


def fills(data: Relaxation, cluster: NDArray[np.int32], share: Floats) -> Floats:
    """(N, W) of what is free, where a candidate counts."""
    at = np.maximum(cluster, 0)
    counts = (cluster >= 0) & (share > _COUNTS)
    seconds = np.where(counts, data.T[at, np.arange(len(cluster))[:, None]], 0.0)
    filled: Floats = seconds / np.maximum(data.cap, TINY)[at]
    return filled


def _without(data: Relaxation, giants: Ints, cluster: Ints) -> Relaxation:
    """The relaxation of the other tasks, with these giants on these clusters, in what they leave free."""
    if not len(giants):
        return data
    others, free = np.setdiff1d(np.arange(len(data.mass)), giants), np.maximum(data.cap, 0.0)
    taken = np.bincount(cluster, data.T[cluster, giants], minlength=len(free))
    left = free - taken
    rows = []
    rest = data.take(others, data.mass[others])
    for whole, row in zip(data.rows, rest.rows, strict=True):
        assert whole.use is not None
        used = np.bincount(cluster, whole.use[cluster, giants], minlength=len(free))
        rows.append(Row(row.name, row.use, None, np.maximum(row.limit - used, 0.0)))
    return replace(
        rest,
        rows=rows,
        speed=np.where(left > 0, data.speed * free / np.maximum(left, TINY), data.speed),
        cap=np.where(left > 0, left, -1.0),
        need=max(data.need - float(data.A[cluster, giants].sum()), 0.0),
    )


def _scaled(vector: Floats, before: Relaxation, after: Relaxation) -> Floats:
    """The prices at which a second of every cluster costs what it did before."""
    ratio = np.ones((len(before.T), before.width))
    ratio[:, 0] = before.speed / after.speed
    scaled: Floats = vector * np.append(ratio, 1.0)
    return scaled

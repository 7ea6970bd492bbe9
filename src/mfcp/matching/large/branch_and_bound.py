"""Branch and bound over the clusters of long tasks.

The relaxation splits long tasks, which a plan cannot do. So its value is too low, and its prices around such tasks are
wrong. In a branch some long tasks may run on a few clusters only. A branch is a relaxation like any other, and the
least bound of the open branches is a bound for all plans. The branch with the least bound is split first, by the long
task that fills most of a cluster in parts.
"""

from __future__ import annotations

import heapq
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats, Ints
from mfcp.matching import clock
from mfcp.matching.large.column_generation import generate
from mfcp.matching.large.diving import fills
from mfcp.matching.large.linear_relaxation import Relaxation
from mfcp.matching.large.shards import Threads, whole_plan

_WIDTH = 4  # candidates per task: little changes from a branch to the next
_OFF = 0.01  # how far off its prices are


@dataclass(frozen=True, order=True)
class Branch:
    """Plans in which some long tasks run on some clusters only.

    Attributes:
        bound: of their objectives.
        number: in the order they were made.
        places: the clusters of each such long task.
        vector: (D,) prices of the bound.
        long_task: the next to decide on; -1 where none fills much in parts.
        parts: the clusters that have parts of it.
    """

    bound: float
    number: int
    places: dict[int, Ints] = field(compare=False)
    vector: Floats = field(compare=False)
    long_task: int = field(compare=False)
    parts: Ints = field(compare=False)


def branch(
    data: Relaxation, vector: Floats, cluster: NDArray[np.int32], share: Floats, *, bound: float, value: float,
    most: int, whole: float, width: int, tolerance: float, deadline: float,
) -> tuple[float, list[Branch]]:  # fmt: skip
    """A bound on the objective of every plan, `value` at most, and the open branches, those that hold it down first.

    Args:
        data: of plans with an objective below `value`.
        vector: (D,) prices that nearly solve it.
        cluster, share: (n, W) of its plan.
        bound: of every plan, as far as it is known.
        value: see there.
        most: relaxations to solve; those of a long task's clusters are solved together, so that they may be a few more.
        whole: share of a cluster in parts of one task from which on the task gets a branch.
        width: candidates per task, at most.
        tolerance: relative, of each.
        deadline: `clock.seconds()` after which to stop.
    """

    def made(number: int, places: dict[int, Ints], vector: Floats) -> Branch:
        part = replace(data, T=masked(data, places))
        shards = Threads(part, min(width, _WIDTH))
        found = generate(
            part, shards, vector, width=min(width, _WIDTH), tolerance=tolerance, off=_OFF, deadline=deadline,
            floor=0.0, enough=value,
        )  # fmt: skip
        if found.bound >= value:
            return Branch(found.bound, number, places, vector, -1, np.empty(0, int))
        cluster, share = whole_plan(shards)
        return Branch(found.bound, number, places, found.best, *_undecided(part, cluster, share, whole))

    open_, count = [Branch(bound, 0, {}, vector, *_undecided(data, cluster, share, whole))], 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        while open_ and count < most and clock.seconds() < deadline:
            if open_[0].long_task < 0:
                break
            best = heapq.heappop(open_)
            allowed = best.places.get(best.long_task, np.flatnonzero(np.isfinite(data.T[:, best.long_task])))
            choices = [*best.parts[:, None], np.setdiff1d(allowed, best.parts)]
            places = [best.places | {best.long_task: choice} for choice in choices if len(choice)]
            numbers = range(count + 1, count + 1 + len(places))
            count += len(places)
            for child in threads.map(made, numbers, places, [best.vector] * len(places)):
                if child.bound < value:
                    heapq.heappush(open_, replace(child, bound=max(child.bound, best.bound)))
    return open_[0].bound if open_ else value, sorted(open_)


def masked(data: Relaxation, places: dict[int, Ints]) -> Floats:
    """(M, n) seconds; inf where a branch does not allow a pair.

    A long task may run on its clusters only; another task only where it has room beside long tasks with one cluster.
    """
    T, room = data.T.copy(), data.cap.copy()
    beside: dict[int, list[int]] = {}
    for long_task, clusters in places.items():
        seconds = data.T[clusters, long_task]
        T[:, long_task] = np.inf
        T[clusters, long_task] = seconds
        if len(clusters) == 1:
            room[clusters[0]] -= seconds[0]
            beside.setdefault(int(clusters[0]), []).append(long_task)
    for cluster, long_tasks in beside.items():
        kept = T[cluster, long_tasks]
        T[cluster, T[cluster] > room[cluster]] = np.inf
        T[cluster, long_tasks] = kept if room[cluster] >= 0 else np.inf
    return T


def _undecided(
    data: Relaxation, cluster: NDArray[np.int32], share: Floats, whole: float
) -> tuple[int, Ints]:  # fmt: skip
    """The task that fills most of a cluster while it is in parts, and where its parts are; -1 for none."""
    filled = fills(data, cluster, share)
    parts = filled.max(axis=1) * (1.0 - share.max(axis=1))
    long_task = int(parts.argmax())
    if parts[long_task] < whole:
        return -1, np.empty(0, int)
    return long_task, np.sort(cluster[long_task, filled[long_task] > 0]).astype(int)

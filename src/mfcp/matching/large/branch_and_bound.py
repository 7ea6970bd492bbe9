"""Branch and bound on giants: what the relaxation loses by splitting them, and where they had better run.

The relaxation splits giant tasks, a plan cannot; around them its value is too low and its prices are wrong. In a
branch some giants may run on a few clusters only; it is a relaxation like any other, and the least of the open
branches is a bound for all plans. The best of them is looked into first, by the giant that fills most in parts.
"""

from __future__ import annotations

import heapq
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats, Ints
from mfcp.matching.large.column_generation import generate
from mfcp.matching.large.diving import fills
from mfcp.matching.large.linear_relaxation import Relaxation
from mfcp.matching.large.shards import Threads, whole_plan

_WIDTH = 4  # candidates per task: little changes from a branch to the next
_OFF = 0.01  # how far off its prices are


@dataclass(frozen=True, order=True)
class Branch:
    """Plans in which some giants run on some clusters only.

    Attributes:
        bound: of their objectives.
        number: in the order they were made.
        places: the clusters of each such giant.
        vector: (D,) prices of the bound.
        giant: the next to decide on; -1 where none fills much in parts.
        parts: the clusters that have parts of it.
    """

    bound: float
    number: int
    places: dict[int, Ints] = field(compare=False)
    vector: Floats = field(compare=False)
    giant: int = field(compare=False)
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
        most: relaxations to solve; those of a giant's clusters are solved together, so that they may be a few more.
        whole: share of a cluster in parts of one task from where on that is worth a branch.
        width: candidates per task, at most.
        tolerance: relative, of each.
        deadline: time.monotonic() after which to stop.
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
        while open_ and count < most and time.monotonic() < deadline:
            if open_[0].giant < 0:
                break
            best = heapq.heappop(open_)
            allowed = best.places.get(best.giant, np.flatnonzero(np.isfinite(data.T[:, best.giant])))
            choices = [*best.parts[:, None], np.setdiff1d(allowed, best.parts)]
            places = [best.places | {best.giant: choice} for choice in choices if len(choice)]
            numbers = range(count + 1, count + 1 + len(places))
            count += len(places)
            for child in threads.map(made, numbers, places, [best.vector] * len(places)):
                if child.bound < value:
                    heapq.heappush(open_, replace(child, bound=max(child.bound, best.bound)))
    return open_[0].bound if open_ else value, sorted(open_)


def masked(data: Relaxation, places: dict[int, Ints]) -> Floats:
    """(M, n) seconds, inf off each giant's clusters, and where a task has no room beside giants with one cluster."""
    T, room = data.T.copy(), data.cap.copy()
    beside: dict[int, list[int]] = {}
    for giant, clusters in places.items():
        seconds = data.T[clusters, giant]
        T[:, giant] = np.inf
        T[clusters, giant] = seconds
        if len(clusters) == 1:
            room[clusters[0]] -= seconds[0]
            beside.setdefault(int(clusters[0]), []).append(giant)
    for cluster, giants in beside.items():
        kept = T[cluster, giants]
        T[cluster, T[cluster] > room[cluster]] = np.inf
        T[cluster, giants] = kept if room[cluster] >= 0 else np.inf
    return T


def _undecided(
    data: Relaxation, cluster: NDArray[np.int32], share: Floats, whole: float
) -> tuple[int, Ints]:  # fmt: skip
    """The task that fills most of a cluster while it is in parts, and where its parts are; -1 for none."""
    filled = fills(data, cluster, share)
    parts = filled.max(axis=1) * (1.0 - share.max(axis=1))
    giant = int(parts.argmax())
    if parts[giant] < whole:
        return -1, np.empty(0, int)
    return giant, np.sort(cluster[giant, filled[giant] > 0]).astype(int)

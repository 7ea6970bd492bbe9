"""Column generation: the relaxation on few candidates per task, and dense passes over all clusters, until both meet."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from mfcp.arrays import Floats
from mfcp.matching import clock
from mfcp.matching.large.linear_relaxation import TINY, Relaxation
from mfcp.matching.large.lp_interior_point import Progress, solve_restricted
from mfcp.matching.large.shards import Shards

_WIDE = 8.0  # first duality gap in units of the error of the prices; few of a task's candidates matter
_ROUNDS = 12  # dense passes at most
_BOX = 4.0  # factor that prices may move by in the first solve
_LEAST = 1e-3  # of the mean price of seconds, to start with: from far below, a cluster's price takes forever to rise
_FINITE = 1e300
_EPS = float(np.finfo(np.float64).eps)


def generate(
    data: Relaxation, shards: Shards, vector: Floats, *, width: int, tolerance: float, off: float, deadline: float,
    floor: float, hopeless: float = np.inf, enough: float = np.inf,
) -> Progress:  # fmt: skip
    """Column generation from prices to a relative gap of `tolerance`.

    The factor that prices may move by grows from solve to solve: at first, a cluster that is nobody's candidate must
    not become so cheap that it is everybody's next time.

    Args:
        data: the relaxation.
        shards: its tasks.
        vector: (D,) prices to start from.
        width: candidates per task.
        tolerance: gap at which to stop.
        off: how far off the start may be, relative.
        deadline: `clock.seconds()` after which to stop.
        floor: a bound known otherwise; a relaxation that is not above it is good enough.
        hopeless: a solve without a result is not repeated where `floor` is so many times the bound.
        enough: a bound that needs no improvement.
    """
    limits, edge = data.limits()
    vector = np.maximum(vector, 0.0)
    if data.weight > 0:
        vector[edge > 0] = np.maximum(vector[edge > 0], _LEAST * vector[edge > 0].mean())
    vector[-1] = min(vector[-1], data.penalty)
    found = Progress(vector, vector)
    for attempt in range(_ROUNDS):
        noise = float(np.clip(2.0 * off, 0.01, 0.5))
        if data.weight > 0:  # prices certify a bound only if those of seconds sum to the weight; Newton steps drift
            found.vector = np.where(edge > 0, found.vector * (data.weight / float(found.vector @ edge)), found.vector)
        total = reduce(add, shards.each("price", found.vector, noise, 2 if off > 0.01 else 1))
        found.passes += 1
        bound = certified(data, found.vector, limits, total)
        if bound > found.bound:
            found.bound, found.best = bound, found.vector
        over = found.value - max(found.bound, floor)
        if (
            over <= tolerance * min(max(abs(found.value), data.unit), _FINITE)
            or found.bound >= enough
            or clock.seconds() > deadline
        ):
            break
        if np.isfinite(found.value):
            gap = (found.value - found.bound) / max(abs(found.value), data.unit)
            off = min(off, max(gap, tolerance))
        apart = 1.0 - max(found.bound, 0.0) / max(floor, TINY)  # prices far below another bound need not be exact
        accuracy = max(0.3 * tolerance, 0.02 * off, min(0.1 * apart, 0.03))
        solve_restricted(
            data, shards, found, width=min(width, len(data.T)), box=_BOX ** (attempt + 1), deadline=deadline,
            gap=_WIDE * off * max(abs(found.bound), data.unit), tolerance=accuracy,
        )  # fmt: skip
        if not np.isfinite(found.value) and floor > hopeless * max(found.bound, 0.0):
            break  # few candidates cannot share a task that is longer than the rest of the round: any prices will do
    return found


def certified(data: Relaxation, vector: Floats, limits: Floats, total: Floats) -> float:
    """The bound of a dense pass, less what rounding can have added."""
    if total[0] == np.inf:  # a task without a cluster
        return np.inf
    parts = vector * limits
    size = total[1] + np.abs(parts).sum()
    return float(total[0] - parts.sum() - (len(data.mass) + len(vector) + 16) * _EPS * size)

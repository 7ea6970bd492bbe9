"""Which of several plans of equal cost is taken: the most reliable, of these the shortest in total, then the first.

A makespan is the load of one cluster, so that the tasks of all others can often lie elsewhere at the same cost. Under
predictions these plans are equal; under the truth they are not. Costs are equal where they differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from mfcp.arrays import Floats, Ints, for_kernel
from mfcp.matching.problem import EQUAL, SLACK, MatchingProblem, busy

_MOST_PAIRS = 4_000_000  # entries of T up to which moves are tried; beyond, the engine's plan stands
_MOST_SWAPPED = 500  # tasks up to which every two are tried


def preferred(cost: Floats, mean: Floats, total: Callable[[Ints, Ints], Floats]) -> Ints:
    """(B,) the plan that is taken of each round's P plans; 0 where all cost inf.

    Args:
        cost: (B, P).
        mean: (B, P) mean reliability.
        total: (rows, plans) -> total time of these; asked for plans of equal cost alone.
    """
    best: Ints = cost.argmin(axis=1)
    least = np.take_along_axis(cost, best[:, None], axis=1)
    equal = cost <= least + EQUAL * np.abs(least)
    equal[np.isinf(least[:, 0])] = False
    several = np.flatnonzero(equal.sum(axis=1) > 1)
    if not len(several):
        return best
    row, plan = np.nonzero(equal[several])
    row = several[row]
    row, plan = _largest(row, plan, mean[row, plan], EQUAL)
    time = total(row, plan)
    row, plan = _largest(row, plan, -time, EQUAL * time)
    first = _starts(row)
    best[row[first]] = plan[first]
    return best


def _largest(row: Ints, plan: Ints, worth: Floats, near: ArrayLike) -> tuple[Ints, Ints]:
    """Those of some plans (K,), sorted by their round, that are worth no less than the best of their round, or near."""
    start = _starts(row)
    most = np.repeat(np.maximum.reduceat(worth, start), np.diff(np.append(start, len(row))))
    kept = worth >= most - near
    return row[kept], plan[kept]


def _starts(row: Ints) -> Ints:
    """Places in a sorted array at which another value begins."""
    result: Ints = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    return result


def total_time(problem: MatchingProblem, plans: Ints) -> Callable[[Ints, Ints], Floats]:
    """The third argument of `preferred`: busy seconds of all clusters under plans (P, N) of a batch (B, M, N)."""

    def total(row: Ints, plan: Ints) -> Floats:
        result: Floats = busy(plans[plan], problem.T[row], problem.zeta).sum(axis=-1)
        return result

    return total


def settled(problem: MatchingProblem, plans: Ints) -> Ints:
    """Plans (B, N) that hold, after moves and swaps of two tasks to preferred plans of no greater cost.

    For engines that cannot look at every plan. The makespan does not rise and reliability does not fall, so that a
    plan keeps what it has met. With deadlines, and in very large rounds, plans are as they were.
    """
    M, N = problem.clusters, problem.tasks
    if problem.deadline is not None or M * N > _MOST_PAIRS or M == 1:
        return plans
    from mfcp.matching.kernels.list_schedule import Constraints
    from mfcp.matching.kernels.tie_breaking import settle_rounds

    B, R, weights = len(plans), len(problem.capacities), problem.objective
    use, limit = np.zeros((B, R, N, M)), np.zeros((B, R, M))
    for r, capacity in enumerate(problem.capacities):
        use[:, r], limit[:, r] = capacity.use.swapaxes(1, 2), capacity.limit
    constraints = Constraints(
        np.zeros((B, 0, 0)) if problem.cost is None or not weights.cost else _turned(problem.cost),
        np.zeros((B, M)) if problem.backlog is None else for_kernel(problem.backlog),
        np.zeros((0, 0)) if problem.zeta is None else for_kernel(problem.zeta),
        np.zeros(0),
        use,
        limit,
    )
    own = np.array([weights.makespan, weights.total_time, weights.cost], np.float64)
    result = np.ascontiguousarray(plans, np.int64).copy()
    settle_rounds(_turned(problem.T), _turned(problem.A), own, constraints, SLACK, N <= _MOST_SWAPPED, result)
    return result


def _turned(values: Floats) -> Floats:
    """(B, N, M)."""
    return for_kernel(values.swapaxes(1, 2))

# mypy: allow-untyped-defs, allow-untyped-decorators
"""List schedules of unrelated clusters, compiled."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from mfcp.compiling import internal, kernel

Constraints = namedtuple("Constraints", ["cost", "backlog", "zeta", "deadline", "use", "limit"])
"""What a platform adds to a round, each array of the sizes that `construct` names."""


@internal
def occupied(constraints, i, count, seconds):
    """Busy seconds of cluster i with tasks of these summed seconds, `count` of them."""
    return seconds * constraints.zeta[i, count] if len(constraints.zeta) else seconds


@internal
def room(constraints, used, i, j, out, slack):
    """Whether the capacities of cluster i have room for task j, once task `out` (-1: none) has left."""
    for r in range(len(constraints.use)):
        leaves = constraints.use[r, out, i] if out >= 0 else 0.0
        if used[r, i] - leaves + constraints.use[r, j, i] > constraints.limit[r, i] * (1.0 + slack):
            return False
    return True


@kernel
def construct(times, reliabilities, order, weights, price, constraints, slack, plan):
    """Fill `plan` (N,) task by task; whether every task found a cluster where all constraints but reliability hold.

    The score of cluster i for task j is weights · (end of i, busy seconds added, cost) - price · a_ij, the end with j
    on i. Tasks with a deadline come first in `order`, earliest first: none that comes later can delay them.

    Args:
        times: (N, M) seconds, inf where not allowed; a task's clusters side by side in memory, as in all that follows.
        reliabilities: (N, M).
        order: (N,) tasks, first to last.
        weights: (3,) of end, busy seconds and cost.
        price: of reliability.
        constraints: cost (N, M), or (0, 0) for none; backlog (M,); zeta (M, N + 1), or (0, 0) for tasks one after
            another; deadline (N,), or (0,) for none; use (R, N, M) and limit (R, M) of the capacities.
        slack: share of a limit or deadline that may be missed.
        plan: (N,) to fill; -1 where a task found no cluster.
    """
    N, M = times.shape
    deadline, use, cost = constraints.deadline, constraints.use, constraints.cost
    summed, busy = np.zeros(M), np.zeros(M)
    count = np.zeros(M, np.int64)
    used = np.zeros((len(use), M))
    soonest = np.full(M, np.inf)  # earliest deadline on a cluster, where all its tasks end together
    together, dated, priced = len(constraints.zeta) > 0, len(deadline) > 0, len(cost) > 0
    for place in range(N):
        j = order[place]
        best, least = -1, np.inf
        for i in range(M):
            if times[j, i] == np.inf:
                continue
            busy_for = occupied(constraints, i, count[i] + 1, summed[i] + times[j, i])
            end = constraints.backlog[i] + busy_for
            if dated:
                due = min(deadline[j], soonest[i]) if together else deadline[j]
                if end > due * (1.0 + slack):
                    continue
            if not room(constraints, used, i, j, -1, slack):
                continue
            score = weights[0] * end + weights[1] * (busy_for - busy[i]) - price * reliabilities[j, i]
            if priced:
                score += weights[2] * cost[j, i]
            if score < least or best < 0:
                best, least = i, score
        plan[j] = best
        if best < 0:
            return False
        summed[best] += times[j, best]
        count[best] += 1
        busy[best] = occupied(constraints, best, count[best], summed[best])
        if dated:
            soonest[best] = min(soonest[best], deadline[j])
        for r in range(len(use)):
            used[r, best] += use[r, j, best]
    return True

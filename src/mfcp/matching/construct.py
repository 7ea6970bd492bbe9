# mypy: allow-untyped-defs, allow-untyped-decorators
"""List scheduling on unrelated clusters, compiled: each task in turn to the cluster that scores least."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def construct(times, reliabilities, order, weights, price, cost, backlog, zeta, deadline, use, limit, slack, plan):
    """Fill `plan` (N,) task by task; whether every task found a cluster where all constraints but reliability hold.

    The score of cluster i for task j is weights · (end of i, busy seconds added, cost) - price · a_ij, the end with j
    on i. Tasks with a deadline come first in `order`, earliest first: none that comes later can delay them.

    Args:
        times: (N, M) seconds, inf where not allowed; a task's clusters side by side in memory, as in all that follows.
        reliabilities: (N, M).
        order: (N,) tasks, first to last.
        weights: (3,) of end, busy seconds and cost.
        price: of reliability.
        cost: (N, M), or (0, 0) for none.
        backlog: (M,).
        zeta: (M, N + 1) or (0, 0) for tasks one after another.
        deadline: (N,), or (0,) for none.
        use, limit: (R, N, M) and (R, M) of the capacities.
        slack: share of a limit or deadline that may be missed.
        plan: (N,) to fill; -1 where a task found no cluster.
    """
    N, M = times.shape
    summed, busy = np.zeros(M), np.zeros(M)
    count = np.zeros(M, np.int64)
    used = np.zeros((len(use), M))
    soonest = np.full(M, np.inf)  # earliest deadline on a cluster, where all its tasks end together
    together, dated, priced = len(zeta) > 0, len(deadline) > 0, len(cost) > 0
    for place in range(N):
        j = order[place]
        best, least = -1, np.inf
        for i in range(M):
            if times[j, i] == np.inf:
                continue
            occupied = summed[i] + times[j, i]
            if together:
                occupied *= zeta[i, count[i] + 1]
            end = backlog[i] + occupied
            if dated:
                due = min(deadline[j], soonest[i]) if together else deadline[j]
                if end > due * (1.0 + slack):
                    continue
            fits = True
            for r in range(len(use)):
                fits = fits and used[r, i] + use[r, j, i] <= limit[r, i] * (1.0 + slack)
            if not fits:
                continue
            score = weights[0] * end + weights[1] * (occupied - busy[i]) - price * reliabilities[j, i]
            if priced:
                score += weights[2] * cost[j, i]
            if score < least or best < 0:
                best, least = i, score
        plan[j] = best
        if best < 0:
            return False
        summed[best] += times[j, best]
        count[best] += 1
        busy[best] = summed[best]
        if together:
            busy[best] *= zeta[best, count[best]]
        if dated:
            soonest[best] = min(soonest[best], deadline[j])
        for r in range(len(use)):
            used[r, best] += use[r, j, best]
    return True

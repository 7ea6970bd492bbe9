# mypy: allow-untyped-defs, allow-untyped-decorators
"""Plans of unrelated clusters, compiled: list scheduling, and iterated local search for small rounds."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from mfcp.compiling import kernel

Constraints = namedtuple("Constraints", ["cost", "backlog", "zeta", "deadline", "use", "limit"])
"""What a platform adds to a round, each array of the sizes that `construct` names."""


@kernel
def occupied(constraints, i, count, seconds):
    """Busy seconds of cluster i with tasks of these summed seconds, `count` of them."""
    return seconds * constraints.zeta[i, count] if len(constraints.zeta) else seconds


@kernel
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


@kernel
def iterate(T, A, need, plan, kicks):
    """Improve `plan` (N,) in place: descend by moves and swaps off the busiest cluster, kick, descend again.

    Iterated local search on the makespan with Σ_j a >= need throughout; a kick that ends worse is taken back.

    Args:
        T: (M, N) seconds, inf where not allowed.
        A: (M, N).
        need: least Σ_j a, which the plan meets.
        plan: (N,).
        kicks: (K, 2 P) random numbers in [0, 1): P tasks and where each goes.
    """
    M, N = T.shape
    current = plan.copy()
    best = _descend(T, A, need, current)
    plan[:] = current
    for kick in range(len(kicks)):
        reached = 0.0
        for part in range(kicks.shape[1] // 2):
            j, i = int(kicks[kick, 2 * part] * N), int(kicks[kick, 2 * part + 1] * M)
            if T[i, j] < best:
                current[j] = i
        for j in range(N):
            reached += A[current[j], j]
        span = _descend(T, A, need, current) if reached >= need else np.inf
        if span <= best:
            best = span
            plan[:] = current
        else:
            current[:] = plan


@kernel
def _descend(T, A, need, plan):
    """The makespan after moves and swaps of the busiest cluster's tasks, the best first, until none lowers it."""
    M, N = T.shape
    load = np.zeros(M)
    reached = 0.0
    for j in range(N):
        load[plan[j]] += T[plan[j], j]
        reached += A[plan[j], j]
    while True:
        worst = load.argmax()
        least, first, second, to = load[worst] * (1.0 - 1e-9), -1, -1, -1
        for j in range(N):
            if plan[j] != worst:
                continue
            without = load[worst] - T[worst, j]
            for k in range(M):
                fits = k != worst and reached - A[worst, j] + A[k, j] >= need
                if fits and max(without, load[k] + T[k, j]) < least:
                    least, first, second, to = max(without, load[k] + T[k, j]), j, -1, k
            for other in range(N):
                k = plan[other]
                if k == worst or T[worst, other] == np.inf or T[k, j] == np.inf:
                    continue
                if reached - A[worst, j] - A[k, other] + A[k, j] + A[worst, other] < need:
                    continue
                span = max(without + T[worst, other], load[k] - T[k, other] + T[k, j])
                if span < least:
                    least, first, second, to = span, j, other, k
        if first < 0:
            return load[worst]
        load[worst] -= T[worst, first]
        load[to] += T[to, first]
        reached += A[to, first] - A[worst, first]
        plan[first] = to
        if second >= 0:
            load[to] -= T[to, second]
            load[worst] += T[worst, second]
            reached += A[worst, second] - A[to, second]
            plan[second] = worst

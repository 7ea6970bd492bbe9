# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="assignment"
"""Plans of many rounds of tens of tasks, compiled: iterated local search, then an implicit enumeration that proves.

With dual prices p of clusters and q of reliability, a pair has the reduced cost r_ij = p_i t_ij - q a_ij / N -
min_k (…), which is at least 0. The value of every plan is at least bound + Σ_j r_ij. So a plan that beats the best
known one deviates from the cheapest clusters by less than the difference of the two values. Such sets of deviations
are few; the enumeration looks at them one by one, cheapest first.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from mfcp.compiling import internal, kernel, prepare
from mfcp.matching.kernels.copying import copy_row
from mfcp.matching.kernels.list_schedule import Constraints, construct
from mfcp.matching.kernels.random_numbers import random_below
from mfcp.matching.kernels.sorting import ascending

prepare(__name__)

_SMALLEST = 2e-3  # share of the bound that the first enumeration may spend; doubled until it proves
_STERN = 1e3  # factor on the charge for a second descent, where the first one missed a reliability that is required
_FIRST = 10  # one in so many descents runs before the enumeration, which only needs a good value to beat


# One round: times and reliabilities (N, M), factors of parallel execution, the least Σ_j a, the charge of each missing
# unit of it, whether a plan must reach it, the reduced costs (N, M), and the bound of `search_range`.
_Round = namedtuple("_Round", ["T", "A", "zeta", "need", "charge", "hard", "reduced", "bound"])


@internal
def _totals(T, A, plan, load, count):
    """Write each cluster's load and number of tasks, and return Σ_j a."""
    load[:] = 0.0
    count[:] = 0
    reached = 0.0
    for j in range(len(plan)):
        load[plan[j]] += T[j, plan[j]]
        count[plan[j]] += 1
        reached += A[j, plan[j]]
    return reached


@internal
def _busy(zeta, i, load, count):
    return load * zeta[i, count] if len(zeta) else load


@internal
def _span(load, count, zeta):
    span = 0.0
    for i in range(len(load)):
        span = max(span, _busy(zeta, i, load[i], count[i]))
    return span


@internal
def _start(given, plan, load, count):
    """Write the best of several list schedules into `plan`, and return its value.

    The price of reliability is bisected towards plans that just reach `need`. Where a plan must, others do not count.
    """
    T, A, zeta, need, charge, hard = given.T, given.A, given.zeta, given.need, given.charge, given.hard
    N = len(T)
    trial = np.empty(N, np.int64)
    M, work, fastest = T.shape[1], 0.0, np.full(N, np.inf)
    for j in range(N):
        for i in range(M):
            fastest[j] = min(fastest[j], T[j, i])
        work += fastest[j]
        fastest[j] = -fastest[j]
    order = ascending(fastest)  # the longest first
    none = np.zeros((0, N, M))
    constraints = Constraints(np.zeros((0, 0)), np.zeros(M), zeta, np.zeros(0), none, np.zeros((0, M)))
    weights, most_reliable = np.zeros(3), np.array([1e-12, 0.0, 0.0])
    best = np.inf
    for thrift in (0.0, 1.0, 4.0):
        weights[0], weights[1] = 1.0, thrift
        low, high = np.log(work / N), np.log(work * 100.0)
        for attempt in range(9):
            price = 0.0 if attempt == 0 else np.inf if attempt == 1 else np.exp((low + high) / 2)
            if price == np.inf:
                construct(T, A, order, most_reliable, 1.0, constraints, 0.0, trial)
            else:
                construct(T, A, order, weights, price, constraints, 0.0, trial)
            reached = _totals(T, A, trial, load, count)
            value = _span(load, count, zeta)
            if hard:
                value = value if reached >= need else np.inf
            else:
                value += charge * max(need - reached, 0.0)
            if value < best:
                best = value
                copy_row(trial, plan)
            if attempt == 0 and reached >= need:
                break
            if attempt > 1 and reached >= need:
                high = np.log(price)
            elif attempt > 1:
                low = np.log(price)
    return best


@internal
def _over_others(busy, i, k, span):
    """The larger of `span` and the busy seconds of every cluster but i and k."""
    for c in range(len(busy)):
        if c != i and c != k:
            span = max(span, busy[c])
    return span


# Over 60 lines: moves and swaps share one best candidate, and splitting them would pass a dozen values back and forth.
@internal
def _descend(given, charge, keep, plan, load, count, reached):
    """(value, Σ_j a) after moves and swaps, the best first, until none lowers makespan + charge · missing Σ_j a.

    While nothing is missing, only those that touch the busiest cluster can lower it.
    """
    T, A, zeta, need = given.T, given.A, given.zeta, given.need
    N, M = T.shape
    busy = np.empty(M)
    while True:
        worst, top = 0, -1.0
        for i in range(M):
            busy[i] = _busy(zeta, i, load[i], count[i])
            if busy[i] > top:
                worst, top = i, busy[i]
        short = max(need - reached, 0.0)
        least = (top + charge * short) * (1.0 - 1e-9)
        first = second = to = np.int64(-1)  # not literal: `_put` is compiled for each type of its arguments
        for j in range(N):
            i = plan[j]
            if short == 0.0 and i != worst and not len(zeta):
                continue
            left = _busy(zeta, i, load[i] - T[j, i], count[i] - 1)
            for k in range(M):
                if k == i or not keep[j, k] or (short == 0.0 and i != worst and k != worst):
                    continue
                missing = charge * max(need - reached - A[j, k] + A[j, i], 0.0)
                span = max(left, _busy(zeta, k, load[k] + T[j, k], count[k] + 1))
                if span + missing >= least:
                    continue
                span = _over_others(busy, i, k, span)
                if span + missing < least:
                    least, first, second, to = span + missing, j, -1, k
        for j in range(N):
            i = plan[j]
            if short == 0.0 and i != worst:
                continue
            for other in range(N):
                k = plan[other]
                if k == i or not keep[j, k] or not keep[other, i] or (short > 0.0 and other < j):
                    continue
                one = load[i] - T[j, i] + T[other, i]
                two = load[k] - T[other, k] + T[j, k]
                if len(zeta):
                    one *= zeta[i, count[i]]
                    two *= zeta[k, count[k]]
                span = max(one, two)
                if span >= least:
                    continue
                missing = charge * max(need - reached - A[j, k] - A[other, i] + A[j, i] + A[other, k], 0.0)
                if span + missing >= least:
                    continue
                span = _over_others(busy, i, k, span)
                if span + missing < least:
                    least, first, second, to = span + missing, j, other, k
        if first < 0:
            return top + charge * short, reached
        came = plan[first]
        reached += _put(T, A, plan, load, count, first, to)
        if second >= 0:
            reached += _put(T, A, plan, load, count, second, came)


@internal
def _put(T, A, plan, load, count, j, to):
    """Move task j to a cluster, and return the change of Σ_j a."""
    i = plan[j]
    load[i] -= T[j, i]
    load[to] += T[j, to]
    count[i] -= 1
    count[to] += 1
    plan[j] = to
    return A[j, to] - A[j, i]


@internal
def _kick(given, pairs, kicks, most, best, plan, state):
    """Improve `plan`, whose value is `best`, by descents from perturbed copies, and return its value.

    A kick moves two to four tasks to random clusters. It skips pairs that are ruled out: no better plan has a pair with
    bound + r >= the best value.
    """
    T, A, need, hard, reduced, bound = given.T, given.A, given.need, given.hard, given.reduced, given.bound
    N, M = T.shape
    keep = np.empty((N, M), np.bool_)
    current, load, count = np.empty(N, np.int64), np.empty(M), np.empty(M, np.int64)
    for j in range(N):
        current[j] = reduced[j].argmin()
    closed = np.inf
    for kick in range(-2, kicks):  # first from each task's cheapest cluster, then from the plan itself
        if best < closed:
            closed, kept = best, np.int64(0)
            for j in range(N):
                for i in range(M):
                    keep[j, i] = bound + reduced[j, i] < best and T[j, i] < best * most
                    if keep[j, i]:
                        pairs[kept, 0], pairs[kept, 1] = j, i
                        kept += 1
            if kept == 0:
                break
        if kick >= 0:
            for _ in range(2 + random_below(state, np.int64(3))):
                chosen = random_below(state, kept)
                current[pairs[chosen, 0]] = pairs[chosen, 1]
        reached = _totals(T, A, current, load, count)
        value, reached = _descend(given, given.charge, keep, current, load, count, reached)
        if hard and reached < need:
            value, reached = _descend(given, _STERN * given.charge, keep, current, load, count, reached)
        if value <= best and (reached >= need or not hard):
            best = value
            copy_row(current, plan)
        else:
            copy_row(plan, current)
    return best


@internal
def _deviations(given, lowest, base, best):
    """The P pairs beyond each task's cheapest that a plan better than `best` may have, cheapest first.

    Returns:
        task, cluster, r: (P,) of the pairs.
        total: (P + 1, M + 1) what pairs k, k + 1, … take off the load of each cluster together, and, in the last
            column, off what Σ_j a lacks: at least what those of a plan do.
        rate: (P + 1, M + 1) the most that one of these pairs takes off for each unit of its r.
    """
    T, A, reduced, bound = given.T, given.A, given.reduced, given.bound
    N, M = T.shape
    count = 0
    for j in range(N):
        for i in range(M):
            count += i != base[j] and bound + reduced[j, i] < best
    task, cluster, cost = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    at = 0
    for j in range(N):
        for i in range(M):
            if i != base[j] and bound + reduced[j, i] < best:
                task[at], cluster[at], cost[at] = j, i, reduced[j, i]
                at += 1
    order, tasks, clusters, costs = ascending(cost), task.copy(), cluster.copy(), cost.copy()
    for at in range(count):
        task[at], cluster[at], cost[at] = tasks[order[at]], clusters[order[at]], costs[order[at]]
    total, rate = np.zeros((count + 1, M + 1)), np.zeros((count + 1, M + 1))
    for at in range(count - 1, -1, -1):
        j, i = task[at], base[task[at]]
        copy_row(total[at + 1], total[at])
        copy_row(rate[at + 1], rate[at])
        for row, gain in ((i, lowest[i] * T[j, i]), (M, A[j, cluster[at]] - A[j, i])):
            if gain > 0.0:
                total[at, row] += gain
                rate[at, row] = max(rate[at, row], gain / cost[at])
    return task, cluster, cost, total, rate


@internal
def _may_improve(given, load, lack, lowest, total, rate, best, left):
    """Whether the pairs that are left can bring every load below `best` and, where it must, Σ_j a to `need`.

    Args:
        given, load, lack: the round, the loads (M,) and what Σ_j a lacks.
        lowest: (M,) least factor of each cluster's summed time.
        total, rate: (M + 1,) see `_deviations`.
        best: value to beat.
        left: reduced cost that may still be spent.
    """
    for i in range(len(load)):
        over = lowest[i] * load[i] - best
        if over >= 0.0 and (over >= total[i] or over >= left * rate[i]):
            return False
    M = len(load)
    return not (given.hard and lack > 0.0 and (lack > total[M] or lack > left * rate[M]))


# Over 60 lines: one search over an explicit stack; a recursion would be shorter, but not compile to a loop.
@internal
def _enumerate(given, budget, best, plan):
    """Look at every plan that may be better than `best`, or at `budget` of them; better ones replace `plan`.

    Returns:
        (value, whether it is proven to be the least).
    """
    T, A, zeta, need, charge, hard = given.T, given.A, given.zeta, given.need, given.charge, given.hard
    reduced, bound = given.reduced, given.bound
    N, M = T.shape
    lowest = np.full(M, np.inf if len(zeta) else 1.0)
    for i in range(M if len(zeta) else 0):
        for n in range(1, zeta.shape[1]):
            lowest[i] = min(lowest[i], zeta[i, n])
    base, load, count = np.empty(N, np.int64), np.empty(M), np.empty(M, np.int64)
    for j in range(N):
        base[j] = reduced[j].argmin()
    task, cluster, cost, total, rate = _deviations(given, lowest, base, best)
    P = len(task)
    taken, spent = np.empty(P + 1, np.int64), np.zeros(P + 2)
    limit = min(_SMALLEST * bound, best - bound) if bound > 0.0 else best - bound  # doubling must get somewhere
    nodes = 0
    while True:
        current, free = base.copy(), np.ones(N, np.bool_)
        reached = _totals(T, A, current, load, count)
        missing = charge * max(need - reached, 0.0)
        value = _span(load, count, zeta) + missing
        if value < best and (missing == 0.0 or not hard):
            best = value
            copy_row(current, plan)
        depth, at = 0, 0
        while True:
            left = min(limit, best - bound) - spent[depth]
            go = at < P and cost[at] < left
            if go and _may_improve(given, load, need - reached, lowest, total[at], rate[at], best, left):
                j = task[at]
                if free[j]:
                    reached += _put(T, A, current, load, count, j, cluster[at])
                    free[j] = False
                    taken[depth] = at
                    spent[depth + 1] = spent[depth] + cost[at]
                    depth += 1
                    nodes += 1
                    missing = charge * max(need - reached, 0.0)
                    value = _span(load, count, zeta) + missing
                    if value < best and (missing == 0.0 or not hard):
                        best = value
                        copy_row(current, plan)
                    if nodes >= budget:
                        return best, False
                at += 1
            elif depth == 0:
                break
            else:
                depth -= 1
                at = taken[depth]
                j = task[at]
                reached += _put(T, A, current, load, count, j, base[j])
                free[j] = True
                at += 1
        if best - bound <= limit:
            return best, True
        limit *= 2.0


# Over 10 positional parameters: a signature of plain arrays compiles the kernel when its module is imported.
@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], b1, f8[:,:,::1], f8[::1], i8, i8, i8, i8,"
    " i8[:,::1], f8[::1], b1[::1])",
)
def search_range(
    T, A, zeta, need, charge, hard, reduced, bound, kicks, budget, first, last, plan, value, proven
):  # fmt: skip
    """Plans for the rounds first … last - 1, into plan, value, proven.

    Args:
        T: (B, N, M) seconds, inf where not allowed.
        A: (B, N, M).
        zeta: (M, N + 1), or (0, 0) for tasks one after another.
        need: (B,) least Σ_j a.
        charge: (B,) of each missing unit of it; with `hard` only on the way.
        hard: whether a plan must reach `need`; the rounds are then such that one does.
        reduced: (B, N, M) reduced costs r, inf where not allowed.
        bound: (B,) such that every plan's value is at least bound + Σ_j r.
        kicks: descents after the enumeration where it did not prove; a part of that before it.
        budget: plans that the enumeration may look at.
        plan, value, proven: (B, N), (B,), (B,).
    """
    N, M = T.shape[1:]
    load, count = np.empty(M), np.empty(M, np.int64)
    pairs, state = np.empty((N * M, 2), np.int64), np.empty(1, np.uint64)
    for b in range(first, last):
        state[0] = np.uint64(88172645463325252)
        most = np.inf if len(zeta) else 1.0
        given = _Round(T[b], A[b], zeta, need[b], charge[b], hard, reduced[b], bound[b])
        best = _start(given, plan[b], load, count)
        best = _kick(given, pairs, kicks // _FIRST, most, best, plan[b], state)
        proven[b] = False
        if budget:
            best, proven[b] = _enumerate(given, budget, best, plan[b])
        if not proven[b]:
            best = _kick(given, pairs, kicks, most, best, plan[b], state)
        value[b] = best

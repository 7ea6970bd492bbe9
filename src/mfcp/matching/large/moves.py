# mypy: allow-untyped-defs, allow-untyped-decorators
"""Compiled local search of one round: a plan over (cluster, task) pairs, its sums, and what a move changes.

`_strain` says what it costs a cluster to be as full as it is, with one pair less or more; rounding and annealing are
written on it. Constants of other modules come as arguments: the cache beside this file notices changes of this file
only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Pairs(NamedTuple):
    """The pairs that the search may use: those of task j are start[j]:start[j + 1].

    Attributes:
        start: (N + 1,).
        cluster: (P,).
        time: (P,) seconds.
        reliability: (P,).
        price: (P,) of the pair at the prices: what it takes of every constraint, and its linear objective.
        money: (P,) the part of the objective that only depends on the pair.
        use: (C, P) of each capacity.
        rank: (P,) the first deadline level that counts the pair; L for none.
        share: (P,) fractional plan.
    """

    start: Index
    cluster: NDArray[np.int32]
    time: Array
    reliability: Array
    price: Array
    money: Array
    use: Array
    rank: NDArray[np.int32]
    share: Array


class Terms(NamedTuple):
    """The constraints, and what missing them costs.

    Attributes:
        makespan: weight of the makespan.
        total_time: weight of a busy second under parallel execution, where it depends on the plan; else 0.
        weight: (M,) cost of a relative excess over the level.
        backlog: (M,) seconds.
        zeta: (M, N + 1), or (M, 0) for tasks one after another.
        limit: (C + L, M) of capacities, then seconds until each deadline level.
        scale: (C + L, M) of the limits.
        unit: cost of a relative excess of a limit.
        need: summed reliability asked for.
        penalty: price of a missing unit, or -1 where it is a constraint.
        spring: half of the second derivative of the cost of missing reliability, where it is a constraint.
    """

    makespan: float
    total_time: float
    weight: Array
    backlog: Array
    zeta: Array
    limit: Array
    scale: Array
    unit: float
    need: float
    penalty: float
    spring: float


class Plan(NamedTuple):
    """A plan and its sums.

    Attributes:
        own: (N,) pair of each task.
        load: (M,) summed times.
        count: (M,) number of tasks.
        used: (C + L, M) of the limits; of deadlines under parallel execution the number of tasks.
        strain: (M,) cost of each cluster being as full as it is.
        over: (M,) whether a cluster breaks a limit or is above the best makespan.
        best: (N,) pair of each task in the best plan that meets every constraint.
        scalars: summed reliability, best objective, level of the makespan, margin on reliability, moves made.
    """

    own: Index
    load: Array
    count: Array
    used: Array
    strain: Array
    over: NDArray[np.bool_]
    best: Index
    scalars: Array


RELIABILITY, BEST, LEVEL, MARGIN, MOVES = range(5)
SCALARS = 5
BROKEN = 1e-10  # relative excess of a limit that counts: a tenth of what is verified


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _use(pairs, terms, r, pair):
    """What a pair takes of limit r."""
    capacities = pairs.use.shape[0]
    if r < capacities:
        return pairs.use[r, pair]
    if pairs.rank[pair] > r - capacities:
        return 0.0
    return 1.0 if terms.zeta.shape[1] else pairs.time[pair]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _end(terms, i, load, count):
    """(busy seconds, end) of cluster i with this load in so many tasks."""
    if terms.zeta.shape[1]:
        load *= terms.zeta[i, int(count + 0.5)]
    return load, load + terms.backlog[i] if count > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _limits(pairs, terms, plan, i, out, into, busy, eta):
    """(cost, whether broken) of the limits of cluster i without pair `out` and with pair `into`."""
    cost, broken = 0.0, False
    for r in range(terms.limit.shape[0]):
        used = plan.used[r, i]
        if out >= 0:
            used -= _use(pairs, terms, r, out)
        if into >= 0:
            used += _use(pairs, terms, r, into)
        if terms.zeta.shape[1] and r >= pairs.use.shape[0]:  # all end together
            used = busy if used > 0.5 else 0.0
        excess = (used - terms.limit[r, i]) / terms.scale[r, i]
        if excess > BROKEN:
            cost += terms.unit * (4.0 + 0.5 * eta * excess) * excess
            broken = True
    return cost, broken


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _strain(pairs, terms, plan, i, out, into, level, eta):
    """What it costs cluster i to be as full as it is, without pair `out` and with pair `into`, -1 for none."""
    load, count = plan.load[i], plan.count[i]
    if out >= 0:
        load -= pairs.time[out]
        count -= 1.0
    if into >= 0:
        load += pairs.time[into]
        count += 1.0
    busy, end = _end(terms, i, load, count)
    excess = end / level - 1.0
    cost = 0.5 * eta * excess * excess * terms.weight[i] if excess > 0.0 else 0.0
    if terms.limit.shape[0]:
        cost += _limits(pairs, terms, plan, i, out, into, busy, eta)[0]
    return cost + terms.total_time * busy


@njit(cache=True, nogil=True, error_model="numpy")
def _over(pairs, terms, plan, i, aim):
    """Whether cluster i ends after `aim` or breaks a limit."""
    busy, end = _end(terms, i, plan.load[i], plan.count[i])
    return end > aim or (terms.limit.shape[0] > 0 and _limits(pairs, terms, plan, i, -1, -1, busy, 0.0)[1])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _missing(terms, short):
    """Cost of missing so much summed reliability."""
    if short <= 0.0:
        return 0.0
    return terms.penalty * short if terms.penalty >= 0.0 else terms.spring * short * short


@njit(cache=True, nogil=True, error_model="numpy")
def _add(pairs, terms, plan, pair, part):
    """Put a part of a pair's task on its cluster."""
    i = pairs.cluster[pair]
    plan.load[i] += part * pairs.time[pair]
    plan.count[i] += part
    for r in range(terms.limit.shape[0]):
        plan.used[r, i] += part * _use(pairs, terms, r, pair)
    plan.scalars[RELIABILITY] += part * pairs.reliability[pair]


@njit(cache=True, nogil=True, error_model="numpy")
def round_shares(pairs, terms, plan, order, eta):
    """Place the tasks in `order`, each where it costs least next to what is placed and what is expected to come.

    `plan.own` of -1 marks the tasks to place; the others stay.
    """
    level = plan.scalars[LEVEL]
    for j in range(len(order)):
        if plan.own[j] >= 0:
            _add(pairs, terms, plan, plan.own[j], 1.0)
            continue
        for e in range(pairs.start[j], pairs.start[j + 1]):
            _add(pairs, terms, plan, e, pairs.share[e])
    for j in order:
        if plan.own[j] >= 0:
            continue
        for e in range(pairs.start[j], pairs.start[j + 1]):
            _add(pairs, terms, plan, e, -pairs.share[e])
        short = terms.need - plan.scalars[RELIABILITY]
        least = math.inf
        for e in range(pairs.start[j], pairs.start[j + 1]):
            i = pairs.cluster[e]
            before = _strain(pairs, terms, plan, i, -1, -1, level, eta)
            after = _strain(pairs, terms, plan, i, -1, e, level, eta)
            cost = pairs.price[e] + after - before + _missing(terms, short - pairs.reliability[e])
            if cost < least:
                least = cost
                plan.own[j] = e
        _add(pairs, terms, plan, plan.own[j], 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _recount(pairs, terms, plan):
    """The sums of a plan, afresh."""
    plan.load[:] = 0.0
    plan.count[:] = 0.0
    plan.used[:] = 0.0
    plan.scalars[RELIABILITY] = 0.0
    for e in plan.own:
        _add(pairs, terms, plan, e, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _keep_if_best(pairs, terms, plan):
    """Remember a plan that meets every constraint if it is the best so far."""
    latest, value = 0.0, 0.0
    for i in range(len(plan.load)):
        busy, end = _end(terms, i, plan.load[i], plan.count[i])
        latest = max(latest, end)
        value += terms.total_time * busy
    value += terms.makespan * latest
    for e in plan.own:
        value += pairs.money[e]
    if terms.penalty > 0.0:
        value += terms.penalty * max(0.0, terms.need - plan.scalars[RELIABILITY])
    if value < plan.scalars[BEST]:
        plan.scalars[BEST] = value
        plan.best[:] = plan.own
        return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def _refresh(pairs, terms, plan, level, eta, aim):
    """Strain of every cluster; how many are over."""
    many = 0
    for i in range(len(plan.load)):
        plan.strain[i] = _strain(pairs, terms, plan, i, -1, -1, level, eta)
        plan.over[i] = _over(pairs, terms, plan, i, aim)
        many += plan.over[i]
    return many


@njit(cache=True, nogil=True, error_model="numpy")
def anneal(pairs, terms, plan, where, schedule, crowd, floor, only_makespan, draws, state):
    """Simulated annealing on the price of the plan plus the strain of its clusters, one move at a time.

    The level above which a cluster is strained follows the plan, so that a share `crowd` of the clusters is above it;
    the margin on reliability follows what is missing.

    Args:
        schedule: (S, 2) temperature and stiffness of each sweep.
        crowd: share of clusters to be above the level.
        floor: least level.
        only_makespan: whether the objective is the makespan alone.
        draws: (2^k,) exponential deviates.
        state: (1,) uint64 of the generator.
    """
    N, M = len(plan.own), len(plan.load)
    _recount(pairs, terms, plan)
    seed = state[0]
    mask = np.uint64(len(draws) - 1)
    hard = terms.penalty < 0.0
    enough = terms.need * (1.0 - 1e-13) if hard else -math.inf
    start, cluster, times, gains, prices = pairs.start, pairs.cluster, pairs.time, pairs.reliability, pairs.price
    own, load, count, strain, over = plan.own, plan.load, plan.count, plan.strain, plan.over
    weight, backlog = terms.weight, terms.backlog
    simple = not (terms.limit.shape[0] or terms.zeta.shape[1] or terms.total_time)
    swaps = len(where) > 0
    monotone = terms.zeta.shape[1] == 0
    largest = draws.max()
    moves = 0
    for s in range(len(schedule)):
        heat, eta = schedule[s, 0], schedule[s, 1]
        level = plan.scalars[LEVEL]
        inverse, half = 1.0 / level, 0.5 * eta
        most = heat * largest if monotone else math.inf
        aim = plan.scalars[BEST] / terms.makespan * (1.0 - 1e-9) if only_makespan else math.inf
        many = _refresh(pairs, terms, plan, level, eta, aim)
        need = terms.need + (plan.scalars[MARGIN] if hard else 0.0)
        rel = plan.scalars[RELIABILITY]
        missing = _missing(terms, need - rel)
        if only_makespan and many == 0 and rel >= enough and _keep_if_best(pairs, terms, plan):
            aim = plan.scalars[BEST] / terms.makespan * (1.0 - 1e-5)
            many = _refresh(pairs, terms, plan, level, eta, aim)
        for j in range(N):
            now = own[j]
            h = cluster[now]
            for e in range(start[j], start[j + 1]):
                if e == now:
                    continue
                g = cluster[e]
                change = prices[e] - prices[now]
                if change > most + strain[h] + missing:
                    break
                seed ^= seed << np.uint64(13)
                seed ^= seed >> np.uint64(7)
                seed ^= seed << np.uint64(17)
                room = heat * draws[(seed >> np.uint64(20)) & mask] + strain[h] + strain[g] + missing - change
                if room < 0.0:
                    continue
                if simple:
                    excess = (load[g] + times[e] + backlog[g]) * inverse - 1.0
                    right = half * excess * excess * weight[g] if excess > 0.0 else 0.0
                    if right > room:
                        continue
                    excess = (load[h] - times[now] + backlog[h]) * inverse - 1.0
                    left = half * excess * excess * weight[h] if excess > 0.0 else 0.0
                else:
                    right = _strain(pairs, terms, plan, g, -1, e, level, eta)
                    left = _strain(pairs, terms, plan, h, now, -1, level, eta)
                gain = gains[e] - gains[now]
                lacks = _missing(terms, need - rel - gain)
                if left + right + lacks > room:
                    continue
                if simple:
                    load[h] -= times[now]
                    load[g] += times[e]
                    count[h] -= 1.0
                    count[g] += 1.0
                    many -= int(over[h]) + int(over[g])
                    over[h] = count[h] > 0.0 and load[h] + backlog[h] > aim
                    over[g] = load[g] + backlog[g] > aim
                else:
                    _add(pairs, terms, plan, now, -1.0)
                    _add(pairs, terms, plan, e, 1.0)
                    many -= int(over[h]) + int(over[g])
                    over[h] = _over(pairs, terms, plan, h, aim)
                    over[g] = _over(pairs, terms, plan, g, aim)
                many += int(over[h]) + int(over[g])
                strain[h], strain[g] = left, right
                own[j] = e
                now, h = e, g
                rel += gain
                missing = lacks
                moves += 1
                if only_makespan and many == 0 and rel >= enough and _keep_if_best(pairs, terms, plan):
                    aim = plan.scalars[BEST] / terms.makespan * (1.0 - 1e-5)
                    many = _refresh(pairs, terms, plan, level, eta, aim)
            if not swaps:
                continue
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            o = np.int64((seed >> np.uint64(11)) % np.uint64(N))
            other = own[o]
            g = cluster[other]
            there, here = where[j, g], where[o, h]
            if g == h or there < 0 or here < 0:
                continue
            room = heat * draws[(seed >> np.uint64(40)) & mask] + strain[h] + strain[g] + missing
            room -= prices[there] - prices[now] + prices[here] - prices[other]
            if room < 0.0:
                continue
            right = _strain(pairs, terms, plan, g, other, there, level, eta)
            if right > room:
                continue
            left = _strain(pairs, terms, plan, h, now, here, level, eta)
            gain = gains[there] - gains[now] + gains[here] - gains[other]
            lacks = _missing(terms, need - rel - gain)
            if left + right + lacks > room:
                continue
            _add(pairs, terms, plan, now, -1.0)
            _add(pairs, terms, plan, other, -1.0)
            _add(pairs, terms, plan, there, 1.0)
            _add(pairs, terms, plan, here, 1.0)
            own[j], own[o] = there, here
            strain[h], strain[g] = left, right
            rel += gain
            missing = lacks
            moves += 1
            many -= int(over[h]) + int(over[g])
            over[h] = _over(pairs, terms, plan, h, aim)
            over[g] = _over(pairs, terms, plan, g, aim)
            many += int(over[h]) + int(over[g])
            if only_makespan and many == 0 and rel >= enough and _keep_if_best(pairs, terms, plan):
                aim = plan.scalars[BEST] / terms.makespan * (1.0 - 1e-5)
                many = _refresh(pairs, terms, plan, level, eta, aim)
        if not only_makespan and many == 0 and rel >= enough:
            _keep_if_best(pairs, terms, plan)
        above = 0
        plan.scalars[RELIABILITY] = rel
        for i in range(M):
            above += _end(terms, i, plan.load[i], plan.count[i])[1] > level
        rate = 0.01 if s < 0.5 * len(schedule) else 0.002
        plan.scalars[LEVEL] = max(floor, level * (1.0 + rate * (above / M - crowd)))
        plan.scalars[MARGIN] = max(0.0, plan.scalars[MARGIN] + 0.2 * (terms.need - rel))
    plan.scalars[MOVES] += moves
    state[0] = seed

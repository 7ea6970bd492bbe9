# mypy: allow-untyped-defs, allow-untyped-decorators
"""Compiled local search of one round: a plan over (cluster, task) pairs, its sums, and what a move changes.

`_strain` gives the cost of a cluster's load with one pair less or more. Rounding and annealing both use it. A move that
overfills a cluster may push a task out of it, and that task may push out another one (an ejection chain [Glover1996]_).
Functions that run often are inlined, because handing over the tuples of arrays takes longer than a move.

.. [Glover1996] Glover, Discrete Applied Mathematics 65, 1996, doi:10.1016/0166-218X(94)00037-E.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Bools, Floats, Ints
from mfcp.compiling import uncounted
from mfcp.matching.kernels.random_numbers import xorshift


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

    start: Ints
    cluster: NDArray[np.int32]
    time: Floats
    reliability: Floats
    price: Floats
    money: Floats
    use: Floats
    rank: NDArray[np.int32]
    share: Floats


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
    weight: Floats
    backlog: Floats
    zeta: Floats
    limit: Floats
    scale: Floats
    unit: float
    need: float
    penalty: float
    spring: float


class PlanState(NamedTuple):
    """A plan and its sums.

    Attributes:
        own: (N,) pair of each task.
        load: (M,) summed times.
        count: (M,) number of tasks.
        used: (C + L, M) of the limits; of deadlines under parallel execution the number of tasks.
        strain: (M,) cost of each cluster being as full as it is.
        weight: (M,) cost of a relative excess over the level: that of the terms, more for a cluster that stays over.
        over: (M,) whether a cluster breaks a limit or ends after AIM.
        best: (N,) pair of each task in the best plan that meets every constraint.
        scalars: see the indices below.
        begin: (M + 1,) where a cluster's members start in the next three.
        member: (P,) tasks of each cluster that have another pair, in no order.
        time: (P,) the members' seconds there.
        step: (P,) the members' least change in price to another pair.
        size: (M,) how many members.
        place: (N,) of a task in `member`; -1 for a task with one pair.
        moved, before: (DEEP,) tasks of the chain at hand, and the pairs they had.
    """

    own: Ints
    load: Floats
    count: Floats  # type: ignore[assignment]  # hides tuple.count
    used: Floats
    strain: Floats
    weight: Floats
    over: Bools
    best: Ints
    scalars: Floats
    begin: Ints
    member: NDArray[np.int32]
    time: Floats
    step: Floats
    size: NDArray[np.int32]
    place: Ints
    moved: Ints
    before: Ints


class Schedule(NamedTuple):
    """How `anneal` goes about it.

    Attributes:
        curve: (4,) temperature at first and at last, stiffness at first and at last.
        total: work at the end of the curve.
        depth: tasks moved at once, at most; 1 for no chains.
        crowd: share of the clusters that are to be above the level, without chains.
        drop: relative distance of the level below the best plan, with chains.
        floor: least level.
        alone: whether the objective is the makespan alone.
    """

    curve: Floats
    total: float
    depth: int
    crowd: float
    drop: float
    floor: float
    alone: bool


class Sweep(NamedTuple):
    """What stays the same while a sweep over the tasks goes on: scalars only.

    Attributes:
        inverse: of the level.
        eta: stiffness.
        need: summed reliability asked for, with its margin.
        refund: most that a cluster's strain may fall by.
    """

    inverse: float
    eta: float
    need: float
    refund: float


RELIABILITY = 0  # summed
BEST = 1  # objective of the best plan that meets every constraint
LATEST = 2  # its makespan
LEVEL = 3  # of the makespan, above which a cluster is strained
MARGIN = 4  # on summed reliability
AIM = 5  # a cluster that ends later does not improve on the best plan
OVER = 6  # number of clusters that do, or break a limit
WORK = 7  # done, in visits of a pair
CURSOR = 8  # task to go on with
SCALARS = 9
MOVING, CHAINING = 20, 40  # work of a move, and of a look for the next task of a chain besides a visit per member
BROKEN = 1e-10  # relative excess of a limit that counts: a tenth of what is verified
BETTER = 1e-5  # least relative improvement of the makespan for which the plan is copied
# Factors on a cluster's weight after a sweep that leaves it over the level, or not; and the largest in all: no chain
# helps a cluster that a single task fills.
RISE, FALL, HEAVIEST = 1.3, 0.7, 1e6
DEEP = 8  # tasks in a chain, at most

# With Numba's reference counts three quarters of a search are spent on them. So nothing is allocated here.
_compiled, _inlined = uncounted(), uncounted(inline="always")


@_inlined
def _use(pairs, terms, r, pair):
    """What a pair takes of limit r."""
    capacities = pairs.use.shape[0]
    if r < capacities:
        return pairs.use[r, pair]
    if pairs.rank[pair] > r - capacities:
        return 0.0
    return 1.0 if terms.zeta.shape[1] else pairs.time[pair]


@_inlined
def _end(terms, i, load, count):
    """(busy seconds, end) of cluster i with this load in so many tasks."""
    if terms.zeta.shape[1]:
        load *= terms.zeta[i, int(count + 0.5)]
    return load, load + terms.backlog[i] if count > 0.0 else 0.0


@_compiled
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


@_inlined
def _strain(pairs, terms, plan, i, out, into, inverse, eta):
    """What it costs cluster i to be as full as it is, without pair `out` and with pair `into`, -1 for none."""
    load, count = plan.load[i], plan.count[i]
    if out >= 0:
        load -= pairs.time[out]
        count -= 1.0
    if into >= 0:
        load += pairs.time[into]
        count += 1.0
    busy, end = _end(terms, i, load, count)
    excess = end * inverse - 1.0
    cost = 0.5 * eta * excess * excess * plan.weight[i] if excess > 0.0 else 0.0
    if terms.limit.shape[0]:
        cost += _limits(pairs, terms, plan, i, out, into, busy, eta)[0]
    return cost + terms.total_time * busy


@_inlined
def _missing(terms, short):
    """Cost of missing so much summed reliability."""
    if short <= 0.0:
        return 0.0
    return terms.penalty * short if terms.penalty >= 0.0 else terms.spring * short * short


@_inlined
def _add(pairs, terms, plan, pair, part):
    """Put a part of a pair's task on its cluster."""
    i = pairs.cluster[pair]
    plan.load[i] += part * pairs.time[pair]
    plan.count[i] += part
    for r in range(terms.limit.shape[0]):
        plan.used[r, i] += part * _use(pairs, terms, r, pair)
    plan.scalars[RELIABILITY] += part * pairs.reliability[pair]


@_compiled
def round_shares(pairs, terms, plan, order, eta):
    """Place the tasks in `order`, each where it costs least next to what is placed and what is expected to come.

    `plan.own` of -1 marks the tasks to place; the others stay.
    """
    inverse = 1.0 / plan.scalars[LEVEL]
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
            before = _strain(pairs, terms, plan, i, -1, -1, inverse, eta)
            after = _strain(pairs, terms, plan, i, -1, e, inverse, eta)
            cost = pairs.price[e] + after - before + _missing(terms, short - pairs.reliability[e])
            if cost < least:
                least = cost
                plan.own[j] = e
        _add(pairs, terms, plan, plan.own[j], 1.0)


@_inlined
def _measure(pairs, terms, plan, i, inverse, eta):
    """Strain of cluster i, and whether it is over, afresh."""
    plan.strain[i] = _strain(pairs, terms, plan, i, -1, -1, inverse, eta)
    busy, end = _end(terms, i, plan.load[i], plan.count[i])
    over = end > plan.scalars[AIM]
    if terms.limit.shape[0] and not over:
        over = _limits(pairs, terms, plan, i, -1, -1, busy, 0.0)[1]
    plan.scalars[OVER] += int(over) - int(plan.over[i])
    plan.over[i] = over


@_inlined
def _join(pairs, plan, j):
    """Enter task j among the members of its cluster."""
    low, high = pairs.start[j], pairs.start[j + 1]
    plan.place[j] = -1
    if high - low < 2:
        return
    pair = plan.own[j]
    i = pairs.cluster[pair]
    at = plan.begin[i] + plan.size[i]
    plan.member[at] = j
    plan.time[at] = pairs.time[pair]
    plan.step[at] = pairs.price[low if pair != low else low + 1] - pairs.price[pair]
    plan.size[i] += 1
    plan.place[j] = at


@_inlined
def _move(pairs, terms, plan, j, pair, listed, inverse, eta):
    """Put task j on another pair; `listed`: members are kept."""
    old = plan.own[j]
    h = pairs.cluster[old]
    plan.own[j] = pair
    if listed:
        at, last = plan.place[j], plan.begin[h] + plan.size[h] - 1
        plan.member[at] = plan.member[last]
        plan.time[at] = plan.time[last]
        plan.step[at] = plan.step[last]
        plan.place[plan.member[at]] = at
        plan.size[h] -= 1
        _join(pairs, plan, j)
    for put in range(2):
        _add(pairs, terms, plan, pair if put else old, 1.0 if put else -1.0)
        _measure(pairs, terms, plan, pairs.cluster[pair] if put else h, inverse, eta)


@_compiled
def _recount(pairs, terms, plan):
    """Sums and members of a plan, afresh."""
    plan.load[:] = 0.0
    plan.count[:] = 0.0
    plan.used[:] = 0.0
    plan.size[:] = 0
    plan.scalars[RELIABILITY] = 0.0
    for j in range(len(plan.own)):
        _add(pairs, terms, plan, plan.own[j], 1.0)
        _join(pairs, plan, j)


@_compiled
def _keep_if_best(pairs, terms, plan, alone):
    """Remember a plan that meets every constraint if it is the best so far."""
    latest, value = 0.0, 0.0
    for i in range(len(plan.load)):
        busy, end = _end(terms, i, plan.load[i], plan.count[i])
        latest = max(latest, end)
        value += terms.total_time * busy
    value += terms.makespan * latest
    if not alone:
        for e in plan.own:
            value += pairs.money[e]
        if terms.penalty > 0.0:
            value += terms.penalty * max(0.0, terms.need - plan.scalars[RELIABILITY])
    if value < plan.scalars[BEST]:
        plan.scalars[BEST] = value
        plan.scalars[LATEST] = latest
        for j in range(len(plan.own)):  # a copy by slices would be allocated first
            plan.best[j] = plan.own[j]


@_inlined
def _respond(pairs, terms, plan, sweep, g, cost, many):
    """The best task to push out of cluster g, and where to.

    Args:
        sweep: see `Sweep`.
        cost: of the chain so far, less what is allowed.
        many: the first so many of `plan.moved` are tasks of the chain.

    Returns:
        (task, pair, cost, work); cost < 0 if that ends the chain well; else the one to go on with, or task -1.
    """
    need, refund, inverse, eta = sweep.need, sweep.refund, sweep.inverse, sweep.eta
    rel, moved = plan.scalars[RELIABILITY], plan.moved
    base = cost - plan.strain[g] - _missing(terms, need - rel)
    least, task, to = 0.0, -1, -1
    part, part_task, part_to, part_cost = 0.0, -1, -1, 0.0
    simple = not (terms.limit.shape[0] or terms.zeta.shape[1] or terms.total_time)
    load, weight, half = plan.load[g] + terms.backlog[g], plan.weight[g], 0.5 * eta
    after, looked = 0.0, CHAINING + plan.size[g]
    for at in range(plan.begin[g], plan.begin[g] + plan.size[g]):
        sum_ = base + plan.step[at]
        if simple:
            excess = (load - plan.time[at]) * inverse - 1.0
            after = half * excess * excess * weight if excess > 0.0 else 0.0
            if sum_ + after > refund:
                continue
        elif sum_ > refund:
            continue
        o = plan.member[at]
        known = False
        for k in range(many):
            known |= moved[k] == o
        if known:
            continue
        was = plan.own[o]
        if not simple:
            after = _strain(pairs, terms, plan, g, was, -1, inverse, eta)
        sum_ = base + after - pairs.price[was]
        rest = need - rel + pairs.reliability[was]
        for f in range(pairs.start[o], pairs.start[o + 1]):
            if f == was:
                continue
            without = sum_ + pairs.price[f]
            if without > refund:
                break
            looked += 1
            i = pairs.cluster[f]
            without += _missing(terms, rest - pairs.reliability[f]) - plan.strain[i]
            if without > 0.0:
                continue
            full = without + _strain(pairs, terms, plan, i, -1, f, inverse, eta)
            if full < least:
                least, task, to = full, o, f
            elif without < part:
                part, part_task, part_to, part_cost = without, o, f, full
    if task >= 0:
        return task, to, least, looked
    return part_task, part_to, part_cost, looked


@_inlined
def _begin_sweep(pairs, terms, plan, schedule, eta, need):
    """Set level and aim after the best plan, and measure every cluster; returns the sweep's constants and its level."""
    scalars = plan.scalars
    if schedule.depth > 1 and scalars[LATEST] < math.inf:
        scalars[LEVEL] = max(schedule.floor, scalars[LATEST] * (1.0 - schedule.drop))
    level = scalars[LEVEL]
    inverse = 1.0 / level
    scalars[AIM] = scalars[LATEST] * (1.0 - BETTER) if schedule.alone else math.inf
    refund = 0.0
    for i in range(len(plan.load)):
        _measure(pairs, terms, plan, i, inverse, eta)
        refund = max(refund, plan.strain[i])
    return Sweep(inverse, eta, need, refund), level


@_inlined
def _chain(pairs, terms, plan, sweep, depth, task, to, cost):
    """Move a task, and more after it as long as the chain costs more than it may; all go back if it ends so.

    Args:
        sweep: see `Sweep`.
        depth: tasks of the chain, at most.
        task, to: the first move.
        cost: of that move, less what is allowed.

    Returns:
        (whether the chain was kept, work).
    """
    moved, before = plan.moved, plan.before
    many, back, work = 0, False, 0.0
    while True:  # the one place that moves tasks: compiled code for each more takes seconds to compile
        was = plan.own[task]
        work += MOVING
        _move(pairs, terms, plan, task, to, depth > 1, sweep.inverse, sweep.eta)
        if not back:
            moved[many], before[many] = task, was
            many += 1
            if cost <= 0.0:
                return True, work
            task = -1
            if many < depth:
                g = pairs.cluster[to]
                task, to, cost, looked = _respond(pairs, terms, plan, sweep, g, cost, many)
                work += looked
            back = task < 0
        if back:
            many -= 1
            if many < 0:
                return False, work
            task, to = moved[many], before[many]


@_inlined
def _largest(values):
    """The largest of some numbers from 0 on."""
    top = 0.0
    for value in values:
        top = max(top, value)
    return top


@_inlined
def _keep_if_valid(pairs, terms, plan, alone):
    """Remember the plan if it meets every constraint and is the best so far; whether it meets them."""
    enough = terms.need * (1.0 - 1e-13) if terms.penalty < 0.0 else -math.inf
    valid = plan.scalars[OVER] == 0.0 and plan.scalars[RELIABILITY] >= enough
    if valid:
        _keep_if_best(pairs, terms, plan, alone)
    return valid


@_inlined
def _end_sweep(pairs, terms, plan, schedule, level, part):
    """Move the margin towards the reliability that is missing.

    Without chains, the level as well, towards the share of clusters above it; with them, weigh clusters that stay above
    it more.
    """
    scalars, M = plan.scalars, len(plan.load)
    if not schedule.alone:
        _keep_if_valid(pairs, terms, plan, schedule.alone)
    if scalars[CURSOR] > 0.0:
        return
    if schedule.depth == 1:
        above = 0
        for i in range(M):
            above += _end(terms, i, plan.load[i], plan.count[i])[1] > level
        rate = 0.01 if part < 0.5 else 0.002
        scalars[LEVEL] = max(schedule.floor, level * (1.0 + rate * (above / M - schedule.crowd)))
    else:
        for i in range(M):
            over = _end(terms, i, plan.load[i], plan.count[i])[1] > level
            heavier = min(plan.weight[i] * RISE, HEAVIEST * terms.weight[i])
            plan.weight[i] = heavier if over else max(terms.weight[i], plan.weight[i] * FALL)
    scalars[MARGIN] = max(0.0, scalars[MARGIN] + 0.2 * (terms.need - scalars[RELIABILITY]))


# Over 60 lines: the loop over pairs decides millions of times a second on a dozen scalars, which it must keep at hand.
@_compiled
def anneal(pairs, terms, plan, schedule, until, draws, state):
    """Simulated annealing on the price of the plan plus the strain of its clusters, one move or chain at a time.

    The level above which a cluster is strained follows the plan, so that a share of the clusters is above it, or with
    chains the best plan. The margin on reliability follows what is missing.

    Args:
        schedule: see `Schedule`.
        until: work at which to return.
        draws: (2^k,) exponential deviates.
        state: (1,) uint64 of the generator.
    """
    N, depth, curve = len(plan.own), schedule.depth, schedule.curve
    _recount(pairs, terms, plan)
    seed, mask, largest = state[0], np.uint64(len(draws) - 1), _largest(draws)
    start, cluster, times, gains, prices = pairs.start, pairs.cluster, pairs.time, pairs.reliability, pairs.price
    own, load, strain, scalars = plan.own, plan.load, plan.strain, plan.scalars
    weight, backlog = plan.weight, terms.backlog
    simple = not (terms.limit.shape[0] or terms.zeta.shape[1] or terms.total_time)
    work = scalars[WORK]
    while work < until:
        part = min(work / schedule.total, 1.0)
        heat = curve[0] * (curve[1] / curve[0]) ** part
        eta = curve[2] * (curve[3] / curve[2]) ** part
        half = 0.5 * eta
        most = heat * largest if terms.zeta.shape[1] == 0 else math.inf
        need = terms.need + (scalars[MARGIN] if terms.penalty < 0.0 else 0.0)
        fresh, level, missing, sweep = True, 0.0, 0.0, Sweep(0.0, eta, need, 0.0)
        for j in range(int(scalars[CURSOR]), N):
            scalars[CURSOR] = j
            if work >= until:
                break
            work += 1.0
            now = own[j]
            h = cluster[now]
            for e in range(start[j], start[j + 1]):
                work += 1.0
                if fresh:  # another best plan, or another sweep
                    sweep, level = _begin_sweep(pairs, terms, plan, schedule, eta, need)
                    missing, fresh = _missing(terms, need - scalars[RELIABILITY]), False
                    if schedule.alone:  # without a move
                        _keep_if_valid(pairs, terms, plan, True)
                change = prices[e] - prices[now]
                if e == now:
                    continue
                if change > most + strain[h] + missing:
                    break
                g = cluster[e]
                seed = xorshift(seed)
                room = heat * draws[(seed >> np.uint64(20)) & mask] + strain[h] + strain[g] + missing - change
                if room < 0.0:
                    continue
                if simple:
                    excess = (load[g] + times[e] + backlog[g]) * sweep.inverse - 1.0
                    right = half * excess * excess * weight[g] if excess > 0.0 else 0.0
                    if right > room and depth == 1:
                        continue
                    excess = (load[h] - times[now] + backlog[h]) * sweep.inverse - 1.0
                    left = half * excess * excess * weight[h] if excess > 0.0 else 0.0
                else:
                    right = _strain(pairs, terms, plan, g, -1, e, sweep.inverse, eta)
                    left = _strain(pairs, terms, plan, h, now, -1, sweep.inverse, eta)
                lacks = _missing(terms, need - scalars[RELIABILITY] - gains[e] + gains[now])
                cost = left + right + lacks - room
                if cost > 0.0 and (depth == 1 or strain[h] + missing <= 0.0 or left - room > sweep.refund):
                    continue
                kept, spent = _chain(pairs, terms, plan, sweep, depth, j, e, cost)
                work += spent
                if kept:
                    now = own[j]
                    h = cluster[now]
                    missing = _missing(terms, need - scalars[RELIABILITY])
                    fresh |= schedule.alone and _keep_if_valid(pairs, terms, plan, True)
        else:
            scalars[CURSOR] = 0.0
        _end_sweep(pairs, terms, plan, schedule, level, part)
        if scalars[CURSOR] > 0.0:
            break
    scalars[WORK] = work
    state[0] = seed

# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="assignment"
"""Local search under the expected cost of `mfcp.matching.expected`, compiled: moves, swaps and kicks, round by round.

The state of a cluster is the mean and the variance of its summed times, and its number of tasks. The state of a plan
adds the sum of mean reliabilities and the sum of their variances. Formulas and clippings are those of `normal`.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from mfcp.compiling import internal, kernel, prepare
from mfcp.matching import normal
from mfcp.matching.kernels.copying import copy_row
from mfcp.matching.kernels.random_numbers import random_below

prepare(__name__)

_STERN = 1e4  # factor on the charge for a second descent, where the first one missed a constraint
_LARGE = 200  # tasks above which only those moves are tried that a linear model of the cost says to pay


# Moments of every pair of a round, each (N, M): time and its variance, reliability and its variance.
_Pairs = namedtuple("_Pairs", ["time", "variance", "A", "a_variance"])

# What a plan costs: factors of parallel execution, backlog of the clusters, unit of makespans, number of tasks, gamma,
# and the quantile and the charge of `improve_range`.
_Terms = namedtuple("_Terms", ["zeta", "backlog", "unit", "N", "gamma", "quantile", "charge"])

# Sums of a plan: per cluster (M,) mean and variance of its load and number of tasks; (2,) of the reliabilities.
_State = namedtuple("_State", ["load", "spread", "count", "sums"])


_greater, _shortfall = kernel(normal.greater), kernel(normal.shortfall)


@internal
def _below(z):
    """Φ(z)."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@internal
def _density(z):
    return math.exp(-0.5 * z * z) * normal.AT_ZERO


@internal
def _wait(i, count, terms):
    """Seconds before cluster i can start; 0 where it has no task, as nothing waits for it."""
    return terms.backlog[i] if count[i] > 0 else 0.0


@internal
def _span(mean, variance, count, terms):
    """`normal.expected_maximum` of one plan."""
    top, spread, zeta = 0.0, 0.0, terms.zeta
    for i in range(len(mean)):
        factor = zeta[i, count[i]] if len(zeta) else 1.0
        other, other_spread = mean[i] * factor + _wait(i, count, terms), variance[i] * factor * factor
        if i == 0:
            top, spread = other, other_spread
            continue
        deviation = math.sqrt(max(spread + other_spread, normal.LEAST_VARIANCE))
        z = (top - other) / deviation
        if z >= normal.TAIL:
            continue
        if z <= -normal.TAIL:
            top, spread = other, other_spread
            continue
        top, spread = _greater(top, spread, other, other_spread, deviation, _density(z), _below(z))
        spread = max(spread, 0.0)
    return top


@internal
def _miss(reached, spread, N, gamma, quantile):
    """Expected shortfall of mean reliability; with a `quantile` >= 0, how much mean - quantile · deviation lacks."""
    d, q = reached / N - gamma, math.sqrt(max(spread, 0.0)) / N
    if quantile >= 0.0:
        return max(quantile * q - d, 0.0)
    if q == 0.0:
        return max(-d, 0.0)
    z = min(max(d / q, -normal.TAIL), normal.TAIL)
    return _shortfall(d, q, _density(z), _below(-z))


@internal
def _put(pairs, plan, state, j, to):
    """Move task j to a cluster, and update the state."""
    i = plan[j]
    state.load[i] -= pairs.time[j, i]
    state.load[to] += pairs.time[j, to]
    state.spread[i] -= pairs.variance[j, i]
    state.spread[to] += pairs.variance[j, to]
    state.count[i] -= 1
    state.count[to] += 1
    state.sums[0] += pairs.A[j, to] - pairs.A[j, i]
    state.sums[1] += pairs.a_variance[j, to] - pairs.a_variance[j, i]
    plan[j] = to


@internal
def _totals(pairs, plan, state):
    """The state of a plan from its pairs."""
    state.load[:], state.spread[:], state.count[:], state.sums[:] = 0.0, 0.0, 0, 0.0
    for j in range(len(plan)):
        i = plan[j]
        state.load[i] += pairs.time[j, i]
        state.spread[i] += pairs.variance[j, i]
        state.count[i] += 1
        state.sums[0] += pairs.A[j, i]
        state.sums[1] += pairs.a_variance[j, i]


@internal
def _cost(state, terms):
    """Expected makespan in units, plus the charge times the expected shortfall."""
    missing = _miss(state.sums[0], state.sums[1], terms.N, terms.gamma, terms.quantile)
    return _span(state.load, state.spread, state.count, terms) / terms.unit + terms.charge * missing


@internal
def _floor(state, terms):
    """What `_cost` is never below: the largest mean load and the shortfall of the mean (Jensen)."""
    load, zeta = state.load, terms.zeta
    top = 0.0
    for i in range(len(load)):
        own = load[i] * zeta[i, state.count[i]] if len(zeta) else load[i]
        top = max(top, own + _wait(i, state.count, terms))
    return top / terms.unit + terms.charge * max(terms.gamma - state.sums[0] / terms.N, 0.0)


@internal
def _descend(pairs, terms, plan, state):
    """The cost after moves and swaps, each taken as soon as it helps, until none does."""
    time = pairs.time
    N, M = time.shape
    _totals(pairs, plan, state)
    cost = _cost(state, terms)
    quiet = j = np.int64(0)  # not literal: `_put` is compiled for each type of its arguments
    while quiet < N:  # tasks looked at in vain, one after another
        found = False
        for k in range(M):
            i = plan[j]
            if k == i or time[j, k] == np.inf:
                continue
            _put(pairs, plan, state, j, k)
            if _floor(state, terms) < cost:
                now = _cost(state, terms)
                if now < cost - 1e-12:
                    cost, found = now, True
                    continue
            _put(pairs, plan, state, j, i)
        for other in range(j + 1, N):
            i, k = plan[j], plan[other]
            if i == k or time[j, k] == np.inf or time[other, i] == np.inf:
                continue
            _put(pairs, plan, state, j, k)
            _put(pairs, plan, state, other, i)
            if _floor(state, terms) < cost:
                now = _cost(state, terms)
                if now < cost - 1e-12:
                    cost, found = now, True
                    continue
            _put(pairs, plan, state, other, k)
            _put(pairs, plan, state, j, i)
        quiet = 0 if found else quiet + 1
        j = (j + 1) % N
    _totals(pairs, plan, state)  # without the rounding of the updates
    return _cost(state, terms)


@internal
def _slopes(terms, state, cost, by_load, by_spread):
    """Write the derivatives of the cost in loads and variances, by differences, and return that in Σ a."""
    for i in range(len(by_load)):
        for values, slope in ((state.load, by_load), (state.spread, by_spread)):
            step = 1e-6 * (values[i] + 1e-300)
            values[i] += step
            slope[i] = (_cost(state, terms) - cost) / step
            values[i] -= step
    step = 1e-6 * terms.N
    state.sums[0] += step
    by_sum = (_cost(state, terms) - cost) / step
    state.sums[0] -= step
    return by_sum


@internal
def _polish(pairs, terms, plan, state):
    """As `_descend`, for many tasks: tries only the moves that pay by the derivatives of the cost."""
    time, variance, A = pairs.time, pairs.variance, pairs.A
    N, M = time.shape
    _totals(pairs, plan, state)
    cost = _cost(state, terms)
    by_load, by_spread, by_sum = np.empty(M), np.empty(M), 0.0
    for _ in range(20):
        start, taken = cost, M
        for j in range(N):
            if taken >= M:  # anew after some moves
                taken = 0
                by_sum = _slopes(terms, state, cost, by_load, by_spread)
            i = plan[j]
            best, gain = np.int64(-1), -1e-12  # not literal, as above
            here = by_load[i] * time[j, i] + by_spread[i] * variance[j, i] + by_sum * A[j, i]
            for k in range(M):
                if k == i or time[j, k] == np.inf:
                    continue
                change = by_load[k] * time[j, k] + by_spread[k] * variance[j, k] + by_sum * A[j, k] - here
                if change < gain:
                    best, gain = k, change
            if best < 0:
                continue
            _put(pairs, plan, state, j, best)
            now = _cost(state, terms)
            if now < cost - 1e-12:
                cost = now
                taken += 1
            else:
                _put(pairs, plan, state, j, i)
        _totals(pairs, plan, state)
        cost = _cost(state, terms)
        if start - cost <= 1e-7 * start:
            break
    return cost


# Over 10 positional parameters: a signature of plain arrays compiles the kernel when its module is imported.
@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8, f8[::1], i8,"
    " i8, i8, i8[:,::1], f8[::1], b1[::1])",
)
def improve_range(
    time, variance, A, a_variance, zeta, backlog, gamma, unit, quantile, charge, kicks, first, last, plan, value, held
):  # fmt: skip
    """Improve the plans of the rounds first … last - 1 in place; cost into `value`, whether all is met into `held`.

    Args:
        time, variance, A, a_variance: (B, N, M), time inf where not allowed.
        zeta: (M, N + 1), or (0, 0).
        backlog: (B, M) seconds.
        gamma, unit: (B,).
        quantile: -1 to charge the expected shortfall; >= 0 to ask for mean - quantile · deviation >= gamma, where
            `charge` counts only while no plan is known that has it.
        charge: (B,) per unit of mean reliability.
        kicks: descents from perturbed plans; none for rounds of many tasks.
        plan, value, held: (B, N), (B,), (B,).
    """
    N, M = time.shape[1:]
    state = _State(np.empty(M), np.empty(M), np.empty(M, np.int64), np.empty(2))
    random = np.empty(1, np.uint64)
    for b in range(first, last):
        random[0] = np.uint64(88172645463325252)
        pairs = _Pairs(time[b], variance[b], A[b], a_variance[b])
        current = plan[b].copy()
        value[b], held[b] = np.inf, False
        for kick in range(-1, kicks if N <= _LARGE else 0):
            if kick >= 0:
                for _ in range(2 + random_below(random, np.int64(3))):
                    j, i = random_below(random, N), random_below(random, M)
                    if time[b, j, i] < np.inf:
                        current[j] = i
            for stern in (1.0, _STERN):
                terms = _Terms(zeta, backlog[b], unit[b], N, gamma[b], quantile, stern * charge[b])
                cost = _descend(pairs, terms, current, state) if N <= _LARGE else _polish(pairs, terms, current, state)
                met = quantile < 0.0 or _miss(state.sums[0], state.sums[1], N, gamma[b], quantile) <= 0.0
                if (met and not held[b]) or (met == held[b] and cost < value[b] and (met or stern == 1.0)):
                    value[b], held[b] = cost, met
                    copy_row(current, plan[b])
                if met:
                    break
            copy_row(plan[b], current)


@internal
def _pays(mean, variance, time, time_variance, k, state, terms, rest, enough):
    """Whether the cost is below `enough` with a time of these moments on cluster k; `rest` is the shortfall's part."""
    state.load[k] = mean + time
    state.spread[k] = variance + time_variance
    return _span(state.load, state.spread, state.count, terms) / terms.unit + rest < enough


@internal
def _least_saving(mean, variance, time, time_variance, k, state, terms, rest, enough, halvings):
    """The least share of its time that a task must save on cluster k for the move to pay; nan where none is enough."""
    if not _pays(mean, variance, 0.0, 0.0, k, state, terms, rest, enough):
        return np.nan
    low, high = 0.0, 1.0
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        left = 1.0 - middle
        if _pays(mean, variance, left * time, left * left * time_variance, k, state, terms, rest, enough):
            high = middle
        else:
            low = middle
    return high


@internal
def _least_success(others, variance, a, span, terms, enough, halvings):
    """The least success probability from which a move pays, at least `a`; nan where even 1 is not enough."""
    makespan = span / terms.unit
    if not makespan + terms.charge * _miss(others + 1.0, variance, terms.N, terms.gamma, -1.0) < enough:
        return np.nan
    low, high = a, 1.0
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        if makespan + terms.charge * _miss(others + middle, variance, terms.N, terms.gamma, -1.0) < enough:
            high = middle
        else:
            low = middle
    return high


# Over 10 positional parameters: see `improve_range`.
@kernel(
    "void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8, f8, f8, i8[::1], i8[::1], i8, f8,"
    " f8[:,:,::1])",
)
def move_tasks(
    time, variance, A, a_variance, zeta, backlog, gamma, unit, charge, plan, tasks, halvings, nothing, value
):  # fmt: skip
    """What moving each of some tasks, alone, does to a round's cost, and where it would begin to pay.

    Args:
        time, variance, A, a_variance: (N, M), time inf where not allowed.
        zeta: (M, N + 1), or (0, 0).
        backlog: (M,) seconds.
        gamma, unit, charge: as in `improve_range`, of the round.
        plan: (N,).
        tasks: (n,).
        halvings: of [0, 1] in the search for where a move begins to pay.
        nothing: relative change of the cost that is rounding.
        value: (4, M, n) expected makespan and cost with the move, and the least share of its time saved and the least
            success with which it pays; nan where it cannot go, and where it never pays.
    """
    N, M = time.shape
    pairs, terms = _Pairs(time, variance, A, a_variance), _Terms(zeta, backlog, unit, N, gamma, -1.0, charge)
    load, spread, count, sums = np.empty(M), np.empty(M), np.empty(M, np.int64), np.empty(2)
    state = _State(load, spread, count, sums)
    _totals(pairs, plan, state)
    now = _cost(state, terms)
    enough = now - nothing * max(1.0, now)
    for at in range(len(tasks)):
        j = tasks[at]
        home = plan[j]
        home_load, home_spread = load[home], spread[home]
        load[home], spread[home] = load[home] - time[j, home], max(spread[home] - variance[j, home], 0.0)
        count[home] -= 1
        others, doubt = sums[0] - A[j, home], sums[1] - a_variance[j, home]
        for k in range(M):
            value[:, k, at] = np.nan
            if time[j, k] == np.inf:
                continue
            t, v, a, q = time[j, k], variance[j, k], A[j, k], doubt + a_variance[j, k]
            mean, var = load[k], spread[k]
            count[k] += 1
            load[k], spread[k] = mean + t, var + v
            span = _span(load, spread, count, terms)
            rest = charge * _miss(others + a, q, N, gamma, -1.0)
            value[0, k, at], value[1, k, at] = span, span / unit + rest
            if span / unit + rest < enough:
                value[2, k, at], value[3, k, at] = 0.0, a
            else:
                value[2, k, at] = _least_saving(mean, var, t, v, k, state, terms, rest, enough, halvings)
                value[3, k, at] = _least_success(others, q, a, span, terms, enough, halvings)
            load[k], spread[k] = mean, var
            count[k] -= 1
        load[home], spread[home] = home_load, home_spread
        count[home] += 1

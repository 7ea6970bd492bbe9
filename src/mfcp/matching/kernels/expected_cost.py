# mypy: allow-untyped-defs, allow-untyped-decorators
"""Local search under the expected cost of `expected.py`, compiled: moves, swaps and kicks, round by round.

A cluster's state is the mean and variance of its summed times and its number of tasks, a plan's besides that the sum
of mean reliabilities and of their variances. Formulas and clippings are those of `expected.py`.
"""

from __future__ import annotations

import math

import numpy as np

from mfcp.matching.kernels.compiling import kernel, prepare
from mfcp.matching.kernels.random_numbers import random_below

prepare(__name__)

_STERN = 1e4  # times the charge, where a descent was content to miss a constraint
_LARGE = 200  # tasks above which only moves that a linear model likes are tried, one by one


@kernel
def _tail(z):
    """Phi(z)."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@kernel
def _density(z):
    return math.exp(-0.5 * z * z) * 0.3989422804014327


@kernel
def _span(mean, variance, count, zeta):
    """`expected.expected_maximum` of one plan."""
    top, spread = 0.0, 0.0
    for i in range(len(mean)):
        factor = zeta[i, count[i]] if len(zeta) else 1.0
        other, other_spread = mean[i] * factor, variance[i] * factor * factor
        if i == 0:
            top, spread = other, other_spread
            continue
        a = math.sqrt(max(spread + other_spread, 1e-300))
        alpha = (top - other) / a
        if alpha >= 38.0:
            continue
        if alpha <= -38.0:
            top, spread = other, other_spread
            continue
        phi, upper = _density(alpha), _tail(alpha)
        first = top * upper + other * (1 - upper) + a * phi
        second = (top * top + spread) * upper + (other * other + other_spread) * (1 - upper) + (top + other) * a * phi
        top, spread = first, max(second - first * first, 0.0)
    return top


@kernel
def _miss(reached, spread, N, gamma, quantile):
    """Expected shortfall of mean reliability; with a `quantile` >= 0, how much mean - quantile · deviation lacks."""
    d, q = reached / N - gamma, math.sqrt(max(spread, 0.0)) / N
    if quantile >= 0.0:
        return max(quantile * q - d, 0.0)
    if q == 0.0:
        return max(-d, 0.0)
    z = min(max(d / q, -38.0), 38.0)
    return q * _density(z) - d * _tail(-z)


@kernel
def _put(time, variance, A, a_variance, plan, load, spread, count, sums, j, to):
    """Move task j."""
    i = plan[j]
    load[i] -= time[j, i]
    load[to] += time[j, to]
    spread[i] -= variance[j, i]
    spread[to] += variance[j, to]
    count[i] -= 1
    count[to] += 1
    sums[0] += A[j, to] - A[j, i]
    sums[1] += a_variance[j, to] - a_variance[j, i]
    plan[j] = to


@kernel
def _totals(time, variance, A, a_variance, plan, load, spread, count, sums):
    load[:], spread[:], count[:], sums[:] = 0.0, 0.0, 0, 0.0
    for j in range(len(plan)):
        i = plan[j]
        load[i] += time[j, i]
        spread[i] += variance[j, i]
        count[i] += 1
        sums[0] += A[j, i]
        sums[1] += a_variance[j, i]


@kernel
def _cost(load, spread, count, sums, zeta, unit, N, gamma, quantile, charge):
    return _span(load, spread, count, zeta) / unit + charge * _miss(sums[0], sums[1], N, gamma, quantile)


@kernel
def _floor(load, count, sums, zeta, unit, N, gamma, charge):
    """What `_cost` is never below: the largest mean load and the shortfall of the mean (Jensen)."""
    top = 0.0
    for i in range(len(load)):
        top = max(top, load[i] * zeta[i, count[i]] if len(zeta) else load[i])
    return top / unit + charge * max(gamma - sums[0] / N, 0.0)


@kernel
def _descend(time, variance, A, a_variance, zeta, gamma, unit, quantile, charge, plan, load, spread, count, sums):
    """The cost after moves and swaps, each taken as soon as it helps, until none does."""
    N, M = time.shape
    given = (time, variance, A, a_variance, plan, load, spread, count, sums)
    weights = (zeta, unit, N, gamma)
    _totals(*given)
    cost = _cost(load, spread, count, sums, *weights, quantile, charge)
    quiet, j = 0, 0
    while quiet < N:  # tasks looked at in vain, one after another
        found = False
        for k in range(M):
            i = plan[j]
            if k == i or time[j, k] == np.inf:
                continue
            _put(*given, j, k)
            if _floor(load, count, sums, *weights, charge) < cost:
                now = _cost(load, spread, count, sums, *weights, quantile, charge)
                if now < cost - 1e-12:
                    cost, found = now, True
                    continue
            _put(*given, j, i)
        for other in range(j + 1, N):
            i, k = plan[j], plan[other]
            if i == k or time[j, k] == np.inf or time[other, i] == np.inf:
                continue
            _put(*given, j, k)
            _put(*given, other, i)
            if _floor(load, count, sums, *weights, charge) < cost:
                now = _cost(load, spread, count, sums, *weights, quantile, charge)
                if now < cost - 1e-12:
                    cost, found = now, True
                    continue
            _put(*given, other, k)
            _put(*given, j, i)
        quiet = 0 if found else quiet + 1
        j = (j + 1) % N
    _totals(*given)  # rounding of the updates
    return _cost(load, spread, count, sums, *weights, quantile, charge)


@kernel
def _polish(time, variance, A, a_variance, zeta, gamma, unit, quantile, charge, plan, load, spread, count, sums):
    """As `_descend` for many tasks: only moves that the derivative of the cost promises something of."""
    N, M = time.shape
    given = (time, variance, A, a_variance, plan, load, spread, count, sums)
    weights = (zeta, unit, N, gamma, quantile, charge)
    _totals(*given)
    cost = _cost(load, spread, count, sums, *weights)
    by_load, by_spread = np.empty(M), np.empty(M)
    for _ in range(20):
        start, taken = cost, M
        for j in range(N):
            if taken >= M:  # derivatives by differences, anew after some moves
                taken = 0
                for i in range(M):
                    for values, slope in ((load, by_load), (spread, by_spread)):
                        step = 1e-6 * (values[i] + 1e-300)
                        values[i] += step
                        slope[i] = (_cost(load, spread, count, sums, *weights) - cost) / step
                        values[i] -= step
                step = 1e-6 * N
                sums[0] += step
                by_sum = (_cost(load, spread, count, sums, *weights) - cost) / step
                sums[0] -= step
            i = plan[j]
            best, gain = -1, -1e-12
            own = by_load[i] * time[j, i] + by_spread[i] * variance[j, i] + by_sum * A[j, i]
            for k in range(M):
                if k == i or time[j, k] == np.inf:
                    continue
                change = by_load[k] * time[j, k] + by_spread[k] * variance[j, k] + by_sum * A[j, k] - own
                if change < gain:
                    best, gain = k, change
            if best < 0:
                continue
            _put(*given, j, best)
            now = _cost(load, spread, count, sums, *weights)
            if now < cost - 1e-12:
                cost = now
                taken += 1
            else:
                _put(*given, j, i)
        _totals(*given)
        cost = _cost(load, spread, count, sums, *weights)
        if start - cost <= 1e-7 * start:
            break
    return cost


@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8, f8[::1], i8, i8, i8,"
    " i8[:,::1], f8[::1], b1[::1])",
)
def improve_range(
    time, variance, A, a_variance, zeta, gamma, unit, quantile, charge, kicks, first, last, plan, value, held
):  # fmt: skip
    """Improve the plans of the rounds first … last - 1 in place; cost into `value`, whether all is met into `held`.

    Args:
        time, variance, A, a_variance: (B, N, M), time inf where not allowed.
        zeta: (M, N + 1), or (0, 0).
        gamma, unit: (B,).
        quantile: -1 to charge the expected shortfall; >= 0 to ask for mean - quantile · deviation >= gamma, where
            `charge` counts only while no plan is known that has it.
        charge: (B,) per unit of mean reliability.
        kicks: descents from perturbed plans; none for rounds of many tasks.
        plan, value, held: (B, N), (B,), (B,).
    """
    N, M = time.shape[1:]
    load, spread, count, sums = np.empty(M), np.empty(M), np.empty(M, np.int64), np.empty(2)
    state = np.empty(1, np.uint64)
    for b in range(first, last):
        state[0] = np.uint64(88172645463325252)
        given = (time[b], variance[b], A[b], a_variance[b], zeta, gamma[b], unit[b], quantile)
        arrays = (load, spread, count, sums)
        current = plan[b].copy()
        value[b], held[b] = np.inf, False
        for kick in range(-1, kicks if N <= _LARGE else 0):
            if kick >= 0:
                for _ in range(2 + random_below(state, 3)):
                    j, i = random_below(state, N), random_below(state, M)
                    if time[b, j, i] < np.inf:
                        current[j] = i
            for stern in (1.0, _STERN):
                if N <= _LARGE:
                    cost = _descend(*given, stern * charge[b], current, *arrays)
                else:
                    cost = _polish(*given, stern * charge[b], current, *arrays)
                met = quantile < 0.0 or _miss(sums[0], sums[1], N, gamma[b], quantile) <= 0.0
                if (met and not held[b]) or (met == held[b] and cost < value[b] and (met or stern == 1.0)):
                    value[b], held[b] = cost, met
                    plan[b] = current
                if met:
                    break
            current[:] = plan[b]


@kernel
def _pays(mean, variance, own, own_variance, k, load, spread, count, zeta, unit, rest, enough):
    """Whether the cost is below `enough` with a time of these moments on cluster k; `rest` is the shortfall's part."""
    load[k] = mean + own
    spread[k] = variance + own_variance
    return _span(load, spread, count, zeta) / unit + rest < enough


@kernel(
    "void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8, f8, f8, i8[::1], i8[::1], i8, f8, f8[:,:,::1])",
)
def move_tasks(time, variance, A, a_variance, zeta, gamma, unit, charge, plan, tasks, halvings, nothing, value):
    """What moving each of some tasks, alone, does to a round's cost, and where it would begin to pay.

    Args:
        time, variance, A, a_variance: (N, M), time inf where not allowed.
        zeta: (M, N + 1), or (0, 0).
        gamma, unit, charge: as in `improve_range`, of the round.
        plan: (N,).
        tasks: (n,).
        halvings: of [0, 1] in the search for where a move begins to pay.
        nothing: relative change of the cost that is rounding.
        value: (4, M, n) expected makespan and cost with the move, and the least share of its time saved and the least
            success with which it pays; nan where it cannot go, and where it never pays.
    """
    N, M = time.shape
    load, spread, count, sums = np.empty(M), np.empty(M), np.empty(M, np.int64), np.empty(2)
    _totals(time, variance, A, a_variance, plan, load, spread, count, sums)
    now = _cost(load, spread, count, sums, zeta, unit, N, gamma, -1.0, charge)
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
            span = _span(load, spread, count, zeta)
            rest = charge * _miss(others + a, q, N, gamma, -1.0)
            cost = span / unit + rest
            value[0, k, at], value[1, k, at] = span, cost
            if cost < enough:
                value[2, k, at], value[3, k, at] = 0.0, a
            else:
                where = (mean, var)
                arrays = (k, load, spread, count, zeta, unit, rest, enough)
                if _pays(*where, 0.0, 0.0, *arrays):
                    low, high = 0.0, 1.0
                    for _ in range(halvings):
                        middle = 0.5 * (low + high)
                        left = 1.0 - middle
                        if _pays(*where, left * t, left * left * v, *arrays):
                            high = middle
                        else:
                            low = middle
                    value[2, k, at] = high
                if span / unit + charge * _miss(others + 1.0, q, N, gamma, -1.0) < enough:
                    low, high = a, 1.0
                    for _ in range(halvings):
                        middle = 0.5 * (low + high)
                        if span / unit + charge * _miss(others + middle, q, N, gamma, -1.0) < enough:
                            high = middle
                        else:
                            low = middle
                    value[3, k, at] = high
            load[k], spread[k] = mean, var
            count[k] -= 1
        load[home], spread[home] = home_load, home_spread
        count[home] += 1

# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="assignment"
"""Local search under the expected cost of `mfcp.matching.expected`, compiled: moves, swaps and kicks, round by round.

What a plan costs is told by `mfcp.matching.kernels.expected_terms`.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import internal, kernel, prepare
from mfcp.matching.kernels.copying import copy_row
from mfcp.matching.kernels.expected_terms import Pairs, State, Terms, cost_of, miss, totals, wait
from mfcp.matching.kernels.random_numbers import random_below

prepare(__name__)

_STERN = 1e4  # times the charge, where a descent was content to miss a constraint
_LARGE = 200  # tasks above which only moves that a linear model likes are tried, one by one


@internal
def _put(pairs, plan, state, j, to):
    """Move task j."""
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
def _floor(state, terms):
    """What `cost_of` is never below: the largest mean load and the shortfall of the mean (Jensen)."""
    load, zeta = state.load, terms.zeta
    top = 0.0
    for i in range(len(load)):
        own = load[i] * zeta[i, state.count[i]] if len(zeta) else load[i]
        top = max(top, own + wait(i, state.count, terms))
    return top / terms.unit + terms.charge * max(terms.gamma - state.sums[0] / terms.N, 0.0)


@internal
def _descend(pairs, terms, plan, state):
    """The cost after moves and swaps, each taken as soon as it helps, until none does."""
    time = pairs.time
    N, M = time.shape
    totals(pairs, plan, state)
    cost = cost_of(state, terms)
    quiet = j = np.int64(0)  # not literal: `_put` is compiled for each type of its arguments
    while quiet < N:  # tasks looked at in vain, one after another
        found = False
        for k in range(M):
            i = plan[j]
            if k == i or time[j, k] == np.inf:
                continue
            _put(pairs, plan, state, j, k)
            if _floor(state, terms) < cost:
                now = cost_of(state, terms)
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
                now = cost_of(state, terms)
                if now < cost - 1e-12:
                    cost, found = now, True
                    continue
            _put(pairs, plan, state, other, k)
            _put(pairs, plan, state, j, i)
        quiet = 0 if found else quiet + 1
        j = (j + 1) % N
    totals(pairs, plan, state)  # without the rounding of the updates
    return cost_of(state, terms)


@internal
def _slopes(terms, state, cost, by_load, by_spread):
    """Derivatives of the cost by differences: in the loads and variances into the arrays; that in Σ a is returned."""
    for i in range(len(by_load)):
        for values, slope in ((state.load, by_load), (state.spread, by_spread)):
            step = 1e-6 * (values[i] + 1e-300)
            values[i] += step
            slope[i] = (cost_of(state, terms) - cost) / step
            values[i] -= step
    step = 1e-6 * terms.N
    state.sums[0] += step
    by_sum = (cost_of(state, terms) - cost) / step
    state.sums[0] -= step
    return by_sum


@internal
def _polish(pairs, terms, plan, state):
    """As `_descend` for many tasks: only the moves that the derivative of the cost likes are tried."""
    time, variance, A = pairs.time, pairs.variance, pairs.A
    N, M = time.shape
    totals(pairs, plan, state)
    cost = cost_of(state, terms)
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
            now = cost_of(state, terms)
            if now < cost - 1e-12:
                cost = now
                taken += 1
            else:
                _put(pairs, plan, state, j, i)
        totals(pairs, plan, state)
        cost = cost_of(state, terms)
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
    state = State(np.empty(M), np.empty(M), np.empty(M, np.int64), np.empty(2))
    random = np.empty(1, np.uint64)
    for b in range(first, last):
        random[0] = np.uint64(88172645463325252)
        pairs = Pairs(time[b], variance[b], A[b], a_variance[b])
        current = plan[b].copy()
        value[b], held[b] = np.inf, False
        for kick in range(-1, kicks if N <= _LARGE else 0):
            if kick >= 0:
                for _ in range(2 + random_below(random, np.int64(3))):
                    j, i = random_below(random, N), random_below(random, M)
                    if time[b, j, i] < np.inf:
                        current[j] = i
            for stern in (1.0, _STERN):
                terms = Terms(zeta, backlog[b], unit[b], N, gamma[b], quantile, stern * charge[b])
                cost = _descend(pairs, terms, current, state) if N <= _LARGE else _polish(pairs, terms, current, state)
                met = quantile < 0.0 or miss(state.sums[0], state.sums[1], N, gamma[b], quantile) <= 0.0
                if (met and not held[b]) or (met == held[b] and cost < value[b] and (met or stern == 1.0)):
                    value[b], held[b] = cost, met
                    copy_row(current, plan[b])
                if met:
                    break
            copy_row(plan[b], current)

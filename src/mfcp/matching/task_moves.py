# mypy: allow-untyped-defs, allow-untyped-decorators
"""What moving tasks of a plan, one at a time, does to its expected cost, compiled: for questions about a decision."""

from __future__ import annotations

import numpy as np

from mfcp.compiling import internal, kernel, prepare
from mfcp.matching.kernels.expected_terms import Pairs, State, Terms, cost_of, miss, span_of, totals

prepare(__name__)


@internal
def _pays(mean, variance, time, time_variance, k, state, terms, rest, enough):
    """Whether the cost is below `enough` with a time of these moments on cluster k; `rest` is the shortfall's part."""
    state.load[k] = mean + time
    state.spread[k] = variance + time_variance
    return span_of(state.load, state.spread, state.count, terms) / terms.unit + rest < enough


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
    if not makespan + terms.charge * miss(others + 1.0, variance, terms.N, terms.gamma, -1.0) < enough:
        return np.nan
    low, high = a, 1.0
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        if makespan + terms.charge * miss(others + middle, variance, terms.N, terms.gamma, -1.0) < enough:
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
    pairs, terms = Pairs(time, variance, A, a_variance), Terms(zeta, backlog, unit, N, gamma, -1.0, charge)
    load, spread, count, sums = np.empty(M), np.empty(M), np.empty(M, np.int64), np.empty(2)
    state = State(load, spread, count, sums)
    totals(pairs, plan, state)
    now = cost_of(state, terms)
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
            span = span_of(load, spread, count, terms)
            rest = charge * miss(others + a, q, N, gamma, -1.0)
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

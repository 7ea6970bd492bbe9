# mypy: allow-untyped-defs, allow-untyped-decorators
"""What a plan costs under `mfcp.matching.expected`, compiled: for the kernels that search and that evaluate moves.

The state of a cluster is the mean and the variance of its summed times, and its number of tasks. The state of a plan
adds the sum of mean reliabilities and the sum of their variances. Formulas and clippings are those of `normal`.
"""

from __future__ import annotations

import math
from collections import namedtuple

from mfcp.compiling import internal, kernel
from mfcp.matching import normal

# Moments of every pair of a round, each (N, M): time and its variance, reliability and its variance.
Pairs = namedtuple("Pairs", ["time", "variance", "A", "a_variance"])

# What a plan costs: factors of parallel execution, backlog of the clusters, unit of makespans, number of tasks, gamma,
# and the quantile and the charge of `improve_range`.
Terms = namedtuple("Terms", ["zeta", "backlog", "unit", "N", "gamma", "quantile", "charge"])

# Sums of a plan: per cluster (M,) mean and variance of its load and number of tasks; (2,) of the reliabilities.
State = namedtuple("State", ["load", "spread", "count", "sums"])


_greater, _shortfall = kernel(normal.greater), kernel(normal.shortfall)


@internal
def _below(z):
    """Φ(z)."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@internal
def _density(z):
    return math.exp(-0.5 * z * z) * normal.AT_ZERO


@internal
def wait(i, count, terms):
    """Seconds before cluster i can start; one that has no task keeps nobody waiting."""
    return terms.backlog[i] if count[i] > 0 else 0.0


@internal
def span_of(mean, variance, count, terms):
    """`normal.expected_maximum` of one plan."""
    top, spread, zeta = 0.0, 0.0, terms.zeta
    for i in range(len(mean)):
        factor = zeta[i, count[i]] if len(zeta) else 1.0
        other, other_spread = mean[i] * factor + wait(i, count, terms), variance[i] * factor * factor
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
def miss(reached, spread, N, gamma, quantile):
    """Expected shortfall of mean reliability; with a `quantile` >= 0, how much mean - quantile · deviation lacks."""
    d, q = reached / N - gamma, math.sqrt(max(spread, 0.0)) / N
    if quantile >= 0.0:
        return max(quantile * q - d, 0.0)
    if q == 0.0:
        return max(-d, 0.0)
    z = min(max(d / q, -normal.TAIL), normal.TAIL)
    return _shortfall(d, q, _density(z), _below(-z))


@internal
def totals(pairs, plan, state):
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
def cost_of(state, terms):
    """Expected makespan in units, plus the charge times the expected shortfall."""
    missing = miss(state.sums[0], state.sums[1], terms.N, terms.gamma, terms.quantile)
    return span_of(state.load, state.spread, state.count, terms) / terms.unit + terms.charge * missing

"""Matching for the expected cost under uncertain times and reliabilities.

The makespan of a plan is the maximum of M random loads and its reliability a random mean. The plan that
minimises E[makespan] / unit + price · E[max(0, gamma - reliability)] needs no margin and always exists; with
certain beliefs it is the plan of least penalised cost. E[max] follows Clark's moment formulas, exact for two
normal loads and an approximation beyond.

.. [Clark1961] C. E. Clark, "The greatest of a finite set of random variables", Operations Research 9(2), 1961.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.matching.exact import ENUMERATE_AT_MOST, all_plans
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.problem import Bools, Floats, Ints, MatchingProblem

_CHUNK = 1_000_000  # (rounds, plans) entries worked on at once
_SWEEPS = 200  # local search stops long before; each sweep takes the best move or swap of every round


@dataclass(frozen=True)
class Moments:
    """Independent beliefs about a batch of rounds.

    Attributes:
        time, time_variance: (B, M, N) seconds, seconds².
        reliability, reliability_variance: (B, M, N).
        gamma: (B,) least mean reliability.
        allowed: (B, M, N).
        zeta: (M, N + 1) factors of parallel execution or None.
    """

    time: Floats
    time_variance: Floats
    reliability: Floats
    reliability_variance: Floats
    gamma: Floats
    allowed: Bools
    zeta: Floats | None = None

    def take(self, part: slice) -> Moments:
        """The rounds of a slice."""
        return Moments(
            self.time[part],
            self.time_variance[part],
            self.reliability[part],
            self.reliability_variance[part],
            self.gamma[part],
            self.allowed[part],
            self.zeta,
        )


def least_expected_cost(moments: Moments, *, price: float) -> Ints:
    """(B, N) plans of least expected cost: enumerated when few, else by local search over moves and swaps.

    The unit of the makespan is that of the point plan (`solve_or_fall_back` on the means), so that `price` keeps
    its meaning of makespans per unit of missing reliability.
    """
    point = MatchingProblem(
        np.where(moments.allowed, moments.time, 1.0),
        moments.reliability,
        np.clip(moments.gamma, 0.0, 1.0),
        moments.allowed,
        moments.zeta,
    )
    start = solve_or_fall_back(point)
    if point.clusters**point.tasks > ENUMERATE_AT_MOST:
        return _local_search(moments, start.assignment, start.makespan, price)
    plans, indicator = all_plans(point.clusters, point.tasks)
    best = np.empty(len(point.T), np.int64)
    step = max(1, _CHUNK // len(plans))
    for low in range(0, len(best), step):
        part = slice(low, low + step)
        totals = [sum_over_tasks(values, indicator) for values in _channels(moments.take(part))]
        best[part] = _score(totals, moments.take(part), start.makespan[part], price).argmin(axis=1)
    return plans[best]


def sum_over_tasks(values: Floats, indicator: Floats) -> Floats:
    """(B, M, P) sums of (B, M, N) values over the tasks that each plan (M, N, P) puts on each cluster."""
    return np.stack([values[:, i] @ indicator[i] for i in range(values.shape[1])], axis=1)


def expected_maximum(mean: Floats, variance: Floats) -> Floats:
    """E[max_i load_i] of independent normal loads along axis 1, by folding Clark's formulas.

    Eqs. (2)-(4) of [Clark1961]_, applied to two loads at a time, the running maximum treated as normal.

    Args:
        mean: (B, M, P) seconds.
        variance: (B, M, P) seconds².

    Returns:
        (B, P) seconds.
    """
    from scipy.special import ndtr

    top, spread = mean[:, 0], variance[:, 0]
    for i in range(1, mean.shape[1]):
        other, other_spread = mean[:, i], variance[:, i]
        a = np.sqrt(np.maximum(spread + other_spread, 1e-300))
        alpha = np.clip((top - other) / a, -38.0, 38.0)  # beyond, the normal tail underflows
        phi = np.exp(-0.5 * alpha**2) / np.sqrt(2 * np.pi)
        upper = ndtr(alpha)
        first = top * upper + other * (1 - upper) + a * phi
        second = (top**2 + spread) * upper + (other**2 + other_spread) * (1 - upper) + (top + other) * a * phi
        top, spread = first, np.maximum(second - first**2, 0.0)
    return top


def expected_shortfall(mean: Floats, variance: Floats, gamma: Floats) -> Floats:
    """E[max(0, gamma - u)] for normal u: q phi(d / q) - d Phi(-d / q) with d = mean - gamma, q² = variance."""
    from scipy.special import ndtr

    d = mean - gamma
    q = np.sqrt(np.maximum(variance, 1e-300))
    z = np.clip(d / q, -38.0, 38.0)
    result: Floats = np.where(
        variance > 0, q * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) - d * ndtr(-z), np.maximum(-d, 0.0)
    )
    return result


def _channels(moments: Moments) -> list[Floats]:
    """What a plan sums per cluster: mean time, its variance, reliability, its variance, tasks, forbidden pairs."""
    return [
        np.where(moments.allowed, moments.time, 0.0),
        np.where(moments.allowed, moments.time_variance, 0.0),
        moments.reliability,
        moments.reliability_variance,
        np.ones(moments.time.shape),
        (~moments.allowed).astype(np.float64),
    ]


def _score(totals: list[Floats], moments: Moments, unit: Floats, price: float) -> Floats:
    """(B, P) expected cost from the per-cluster totals (B, M, P) of `_channels`."""
    mean, variance, reliable, reliable_variance, count, forbidden = totals
    tasks = moments.time.shape[-1]
    if moments.zeta is not None:
        factor = np.stack([moments.zeta[i][count[:, i].astype(np.int64)] for i in range(count.shape[1])], axis=1)
        mean, variance = mean * factor, variance * factor**2
    short = expected_shortfall(
        reliable.sum(axis=1) / tasks, reliable_variance.sum(axis=1) / tasks**2, moments.gamma[:, None]
    )
    cost = expected_maximum(mean, variance) / unit[:, None] + price * short
    result: Floats = np.where(forbidden.sum(axis=1) > 0, np.inf, cost)
    return result


def _local_search(moments: Moments, plan: Ints, unit: Floats, price: float) -> Ints:
    """Best move or swap of each round until none helps; batched over rounds and neighbours."""
    channels = _channels(moments)
    rounds, M, N = moments.time.shape
    plan = plan.copy()
    first, second = np.triu_indices(N, 1)
    everyone = np.arange(rounds)
    current = np.full(rounds, np.inf)
    for _ in range(_SWEEPS):
        onehot = (plan[:, None, :] == np.arange(M)[:, None]).astype(np.float64)
        totals = []
        for values in channels:
            placed = values * onehot  # (B, M, N)
            base = placed.sum(axis=2)
            # delta[b, i, j, k]: change of cluster i's total when task j moves to cluster k
            delta = -np.repeat(placed[..., None], M, axis=3)
            for k in range(M):
                delta[:, k, :, k] += values[:, k]
            to_second = np.take_along_axis(delta[:, :, first], plan[:, None, second, None], axis=3)[..., 0]
            to_first = np.take_along_axis(delta[:, :, second], plan[:, None, first, None], axis=3)[..., 0]
            neighbours = np.concatenate([delta.reshape(rounds, M, -1), to_second + to_first], axis=2)
            totals.append(base[:, :, None] + neighbours)
        cost = _score(totals, moments, unit, price)
        best = cost.argmin(axis=1)
        value = cost[everyone, best]
        better = value < current - 1e-12
        if not better.any():
            break
        current = np.where(better, value, current)
        move = better & (best < N * M)
        plan[move, best[move] // M] = best[move] % M
        swap = np.flatnonzero(better & (best >= N * M))
        a, b = first[best[swap] - N * M], second[best[swap] - N * M]
        plan[swap, a], plan[swap, b] = plan[swap, b], plan[swap, a]
    return plan

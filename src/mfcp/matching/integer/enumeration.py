"""Integer matching, proven optimal: enumeration of all plans when they are few, else a MILP.

Both minimise the problem's objective subject to mean reliability >= gamma and every other constraint, or its soft
form objective + price · max(0, gamma - reliability), which the evaluation needs for its reference cost.
Enumeration is batched over rounds: a plan's loads are one matrix product per cluster.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SettingsError
from mfcp.matching.problem import SLACK, MatchingProblem
from mfcp.matching.ties import preferred, total_time

ENUMERATE_AT_MOST = 60_000  # plans; above it HiGHS is faster than a pass over all of them
_CHUNK = 4_000_000  # entries of one (rounds, plans) block: 32 MB


def few_plans(problem: MatchingProblem) -> bool:
    """Whether all plans can be looked at."""
    return problem.tasks * math.log(problem.clusters) <= math.log(ENUMERATE_AT_MOST)


@lru_cache(maxsize=8)
def all_plans(clusters: int, tasks: int) -> tuple[Ints, Floats]:
    """Every plan: assignments (P, N) and indicators (M, N, P), P = M^N, in lexicographic order.

    Raises:
        SettingsError: more than `ENUMERATE_AT_MOST` plans.
    """
    if tasks * math.log(clusters) > math.log(ENUMERATE_AT_MOST):
        raise SettingsError(f"{clusters}^{tasks} plans are too many to enumerate (at most {ENUMERATE_AT_MOST})")
    digits = np.array([clusters**place for place in reversed(range(tasks))], np.int64)
    plans = np.arange(clusters**tasks)[:, None] // digits % clusters
    indicator = (plans.T[None] == np.arange(clusters)[:, None, None]).astype(np.float64)
    plans.setflags(write=False)
    indicator.setflags(write=False)
    return plans, indicator


def plan_values(problem: MatchingProblem) -> tuple[Floats, Floats]:
    """Objective (inf where a constraint other than reliability is broken) and mean reliability of every plan: (B, P).

    Args:
        problem: a batch (B, M, N) with few enough plans to enumerate.
    """
    _, indicator = all_plans(problem.clusters, problem.tasks)
    weights, broken = problem.objective, None
    times = np.where(problem.allowed, problem.T, np.float64(0.0))
    span = np.zeros((len(times), indicator.shape[-1]))
    mean, rest = np.zeros_like(span), np.zeros_like(span) if weights.total_time or weights.cost else None
    for i in range(problem.clusters):  # M matrix products, never a loop over rounds or tasks
        load = times[:, i] @ indicator[i]
        if problem.zeta is not None:
            load *= problem.zeta[i][indicator[i].sum(axis=0).astype(np.int64)]
        if problem.deadline is not None:
            broken = _or(broken, _late(problem, times[:, i], load, i))
        if rest is not None:
            rest += weights.total_time * load
            if problem.cost is not None and weights.cost:
                rest += weights.cost * np.where(problem.allowed[:, i], problem.cost[:, i], 0.0) @ indicator[i]
        for capacity in problem.capacities:
            broken = _or(broken, capacity.use[:, i] @ indicator[i] > capacity.limit[:, i, None] * (1.0 + SLACK))
        if problem.backlog is not None:
            load += problem.backlog[:, i, None] * (load > 0)
        np.maximum(span, load, out=span)
        mean += problem.A[:, i] @ indicator[i]
    value = span if weights.makespan == 1.0 else weights.makespan * span
    if rest is not None:
        value += rest
    if not problem.allowed.all():
        forbidden = sum((~problem.allowed[:, i]).astype(np.float64) @ indicator[i] for i in range(problem.clusters))
        broken = _or(broken, np.asarray(forbidden) > 0)
    if broken is not None:
        value[broken] = np.inf
    return value, mean / problem.tasks


def _or(one: Bools | None, other: Bools) -> Bools:
    return other if one is None else one | other


def _late(problem: MatchingProblem, times: Floats, load: Floats, i: int) -> Bools:
    """(B, P) whether a task on cluster i misses its deadline; times (B, N) and load (B, P) of that cluster."""
    assert problem.deadline is not None
    _, indicator = all_plans(problem.clusters, problem.tasks)
    start = 0.0 if problem.backlog is None else problem.backlog[:, i, None]
    late = np.zeros(load.shape, bool)
    for k in range(problem.tasks):
        due = problem.deadline[:, k, None]
        if problem.zeta is None:  # in order of deadline: done when all that are due by then are
            load = np.where(problem.deadline <= due, times, 0.0) @ indicator[i]
        late |= (indicator[i, k] > 0) & (start + load > due * (1.0 + SLACK))
    return late


def enumerate_plans(problem: MatchingProblem, prices: Floats | None) -> tuple[Ints, Floats]:
    """Best plan (B, N) and its value (B,) of every round; -1 and inf where there is none; ties as `ties` has them."""
    plans, _ = all_plans(problem.clusters, problem.tasks)
    rounds = len(problem.T)
    best = np.zeros(rounds, np.int64)
    value = np.zeros(rounds)
    step = max(1, _CHUNK // len(plans))
    for low in range(0, rounds, step):
        part = slice(low, low + step)
        sub = problem.take(part)
        worth, mean = plan_values(sub)
        short = np.maximum(sub.gamma[:, None] - mean, 0.0)
        cost = np.where(short <= SLACK, worth, np.inf) if prices is None else worth + prices[part, None] * short
        best[part] = preferred(cost, mean, total_time(sub, plans))
        value[part] = np.take_along_axis(cost, best[part, None], axis=1)[:, 0]
    found = np.isfinite(value)
    return np.where(found[:, None], plans[best], -1), value

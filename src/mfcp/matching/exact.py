"""Integer matching, proven optimal: enumeration of all plans when they are few, else a MILP.

Both minimise the makespan subject to mean reliability >= gamma, or its soft form
makespan + price · max(0, gamma - reliability), which the evaluation needs for its reference cost.
Enumeration is batched over rounds: a plan's loads are one matrix product per cluster.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mfcp.errors import SettingsError, SolverError
from mfcp.matching.problem import SLACK, Floats, Ints, MatchingProblem

ENUMERATE_AT_MOST = 60_000  # plans; above it HiGHS is faster than a pass over all of them
_CHUNK = 4_000_000  # entries of one (rounds, plans) block: 32 MB


def few_plans(problem: MatchingProblem) -> bool:
    """Whether all plans can be looked at."""
    return bool(problem.clusters**problem.tasks <= ENUMERATE_AT_MOST)


@lru_cache(maxsize=8)
def all_plans(clusters: int, tasks: int) -> tuple[Ints, Floats]:
    """Every plan: assignments (P, N) and indicators (M, N, P), P = M^N, in lexicographic order.

    Raises:
        SettingsError: more than `ENUMERATE_AT_MOST` plans.
    """
    if clusters**tasks > ENUMERATE_AT_MOST:
        raise SettingsError(f"{clusters}^{tasks} plans are too many to enumerate (at most {ENUMERATE_AT_MOST})")
    plans = np.indices((clusters,) * tasks).reshape(tasks, -1).T.astype(np.int64)
    indicator = (plans.T[None] == np.arange(clusters)[:, None, None]).astype(np.float64)
    plans.setflags(write=False)
    indicator.setflags(write=False)
    return plans, indicator


def plan_values(problem: MatchingProblem) -> tuple[Floats, Floats]:
    """Makespan (seconds, inf where forbidden) and mean reliability of every plan: each (B, P).

    Args:
        problem: a batch (B, M, N) with few enough plans to enumerate.
    """
    _, indicator = all_plans(problem.clusters, problem.tasks)
    times = np.where(problem.allowed, problem.T, 0.0)
    span = np.zeros((len(times), indicator.shape[-1]))
    mean = np.zeros_like(span)
    for i in range(problem.clusters):  # M matrix products, never a loop over rounds or tasks
        load = times[:, i] @ indicator[i]
        if problem.zeta is not None:
            load *= problem.zeta[i][indicator[i].sum(axis=0).astype(np.int64)]
        np.maximum(span, load, out=span)
        mean += problem.A[:, i] @ indicator[i]
    if not problem.allowed.all():
        forbidden = sum((~problem.allowed[:, i]).astype(np.float64) @ indicator[i] for i in range(problem.clusters))
        span[np.asarray(forbidden) > 0] = np.inf
    return span, mean / problem.tasks


def enumerate_plans(problem: MatchingProblem, prices: Floats | None) -> tuple[Ints, Floats]:
    """Best plan (B, N) and its value (B,) of every round; -1 and inf where there is none."""
    plans, _ = all_plans(problem.clusters, problem.tasks)
    rounds = len(problem.T)
    best = np.zeros(rounds, np.int64)
    value = np.zeros(rounds)
    step = max(1, _CHUNK // len(plans))
    for low in range(0, rounds, step):
        part = slice(low, low + step)
        sub = problem.take(part)
        span, mean = plan_values(sub)
        short = np.maximum(sub.gamma[:, None] - mean, 0.0)
        cost = np.where(short <= SLACK, span, np.inf) if prices is None else span + prices[part, None] * short
        best[part] = cost.argmin(axis=1)
        value[part] = np.take_along_axis(cost, best[part, None], axis=1)[:, 0]
    found = np.isfinite(value)
    return np.where(found[:, None], plans[best], -1), value


def milp_round(problem: MatchingProblem, price: float | None, limit: float) -> tuple[Ints, float]:
    """Plan (N,) and bound of one round by HiGHS: binary x_ij, makespan tau and shortfall s; tau + price · s."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    T, A, gamma, allowed = problem.T, problem.A, float(problem.gamma), problem.allowed
    M, N = T.shape
    if price is None and problem.reachable_gamma() < gamma - SLACK:
        return np.full(N, -1), np.inf
    unit = np.where(allowed, T, np.inf).min(axis=0).sum() / M  # keeps HiGHS's absolute tolerances meaningful
    times = np.where(allowed, T, 0.0) / unit
    load = sparse.hstack([sparse.block_diag(list(times[:, None, :])), -np.ones((M, 1)), np.zeros((M, 1))])
    once = sparse.hstack([sparse.hstack([sparse.eye(N)] * M), sparse.csr_matrix((N, 2))])
    mean = np.concatenate([A.ravel() / N, [0.0, 1.0]])[None]
    constraints = [
        LinearConstraint(load, -np.inf, 0.0),
        LinearConstraint(once, 1.0, 1.0),
        LinearConstraint(mean, gamma, np.inf),
    ]
    objective = np.zeros(M * N + 2)
    objective[-2:] = 1.0, 0.0 if price is None else price / unit
    upper = np.concatenate([allowed.ravel().astype(float), [np.inf, 0.0 if price is None else 1.0]])
    integral = np.concatenate([np.ones(M * N), [0, 0]])
    result = milp(
        objective,
        constraints=constraints,
        bounds=Bounds(np.zeros(M * N + 2), upper),
        integrality=integral,
        options={"time_limit": limit, "mip_rel_gap": 0.0},
    )
    if result.status == 2:
        return np.full(N, -1), np.inf
    bound = 0.0 if result.mip_dual_bound is None else float(result.mip_dual_bound) * unit
    if result.x is None:
        if result.status == 1:
            return np.full(N, -1), bound
        raise SolverError(f"HiGHS failed on a ({M}, {N}) round: {result.message}")
    return result.x[: M * N].reshape(M, N).argmax(axis=0).astype(np.int64), bound

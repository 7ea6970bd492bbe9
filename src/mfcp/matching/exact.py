"""Integer matching, proven optimal: enumeration of all plans when they are few, else a MILP.

Both solve Eq. (2) of [Huo2025]_, min makespan subject to mean reliability >= gamma, or its soft form
min makespan + price · max(0, gamma - reliability), which the evaluation needs for its reference cost.
Enumeration is batched over rounds: a plan's loads are one matrix product per cluster.
"""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from mfcp.errors import InfeasibleError, SettingsError, SolverError
from mfcp.matching.problem import SLACK, Bools, Floats, Ints, MatchingProblem, Solution, makespan, reliability

ENUMERATE_AT_MOST = 60_000  # plans; above it HiGHS is faster than a pass over all of them
FALLBACK_PRICE = 20.0  # in units of the fastest makespan: see `solve_or_fall_back`
_CHUNK = 4_000_000  # entries of one (rounds, plans) block: 32 MB


def solve(
    problem: MatchingProblem,
    engine: str = "auto",
    *,
    price: ArrayLike | None = None,
    time_limit: float = 60.0,
) -> Solution:
    """The best plan of every round, Eq. (2) of [Huo2025]_.

    Args:
        problem: one round (M, N) or a batch (..., M, N).
        engine: "enumerate", "milp", or "auto" (also "exact"): enumerate when M^N is small.
        price: None keeps reliability >= gamma as a constraint; a number (or one per round), in seconds
            per unit of reliability, charges the shortfall instead, so that every round has a plan.
        time_limit: seconds per round for the MILP; at the limit the status is "feasible" and
            `lower_bound` still certifies the plan.

    Returns:
        A `Solution`; rounds whose gamma is out of reach have status "infeasible" and assignment -1.
        With a price, `lower_bound` bounds makespan + price · shortfall.

    Raises:
        SettingsError: unknown engine; parallel execution with too many plans to enumerate.
    """
    start = time.perf_counter()
    if engine not in ("auto", "exact", "enumerate", "milp"):
        raise SettingsError(f"unknown engine '{engine}'; known: auto, exact, enumerate, milp")
    small = problem.clusters**problem.tasks <= ENUMERATE_AT_MOST
    if engine in ("auto", "exact"):
        engine = "enumerate" if small else "milp"
    if engine == "milp" and problem.zeta is not None:
        raise SettingsError("parallel execution is solved by enumeration only; use fewer tasks per round")
    batch = problem.T.shape[:-2]
    flat = MatchingProblem(
        problem.T.reshape(-1, *problem.T.shape[-2:]),
        problem.A.reshape(-1, *problem.A.shape[-2:]),
        problem.gamma.reshape(-1),
        problem.allowed.reshape(-1, *problem.T.shape[-2:]),
        problem.zeta,
    )
    prices = None if price is None else np.broadcast_to(np.asarray(price, np.float64), batch).reshape(-1)
    if engine == "enumerate":
        assignment, bound, status = _enumerate(flat, prices)
    else:
        assignment, bound, status = _milp_rounds(flat, prices, time_limit)
    planned = assignment[:, 0] >= 0
    seconds_per_round = np.full(len(planned), np.inf)
    if planned.any():
        seconds_per_round[planned] = makespan(assignment[planned], flat.T[planned], flat.zeta)
    return Solution(
        assignment=assignment.reshape(*batch, problem.tasks),
        makespan=seconds_per_round.reshape(batch),
        lower_bound=bound.reshape(batch),
        status=status.reshape(batch),
        seconds=time.perf_counter() - start,
        engine=engine,
    )


def solve_or_fall_back(problem: MatchingProblem, *, time_limit: float = 60.0) -> Solution:
    """Eq. (2) where it has a plan; elsewhere makespan + 20 · (least makespan) · shortfall, least.

    Predictions may admit no feasible plan although the platform must still place the tasks; every method
    is treated alike by this rule. Status "fallback" marks such rounds.
    """
    solution = solve(problem, time_limit=time_limit)
    missing = solution.status == "infeasible"
    if not missing.any():
        return solution
    hard = problem.take(missing)
    fastest = solve(hard.at(0.0), time_limit=time_limit).makespan
    soft = solve(hard, price=FALLBACK_PRICE * fastest, time_limit=time_limit)
    assignment, spans = solution.assignment.copy(), solution.makespan.copy()
    status = solution.status.astype("<U10")
    assignment[missing], spans[missing], status[missing] = soft.assignment, soft.makespan, "fallback"
    return Solution(assignment, spans, solution.lower_bound, status, solution.seconds + soft.seconds, solution.engine)


def require_feasible(problem: MatchingProblem) -> None:
    """Raise where gamma is above what any plan reaches.

    Raises:
        InfeasibleError: names the first such round with both numbers.
    """
    reachable = np.atleast_1d(problem.reachable_gamma())
    short = reachable < np.atleast_1d(problem.gamma) - SLACK
    if short.any():
        where = int(np.argmax(short))
        raise InfeasibleError(
            f"round {where} ({problem.clusters} clusters, {problem.tasks} tasks): best reachable mean reliability "
            f"{reachable[where]:.4g} < gamma {np.atleast_1d(problem.gamma)[where]:.4g}; lower gamma or add a cluster"
        )


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


def _enumerate(problem: MatchingProblem, prices: Floats | None) -> tuple[Ints, Floats, np.ndarray]:
    plans, _ = all_plans(problem.clusters, problem.tasks)
    rounds = len(problem.T)
    best = np.zeros(rounds, np.int64)
    value = np.zeros(rounds)
    step = max(1, _CHUNK // len(plans))
    for low in range(0, rounds, step):
        part = slice(low, low + step)
        sub = problem.take(np.arange(rounds)[part])
        span, mean = plan_values(sub)
        short = np.maximum(sub.gamma[:, None] - mean, 0.0)
        cost = np.where(short <= SLACK, span, np.inf) if prices is None else span + prices[part, None] * short
        best[part] = cost.argmin(axis=1)
        value[part] = np.take_along_axis(cost, best[part, None], axis=1)[:, 0]
    found = np.isfinite(value)
    assignment = np.where(found[:, None], plans[best], -1)
    return assignment, value, np.where(found, "optimal", "infeasible")


def _milp_rounds(problem: MatchingProblem, prices: Floats | None, limit: float) -> tuple[Ints, Floats, np.ndarray]:
    results = [
        _milp(problem.T[b], problem.A[b], float(problem.gamma[b]), problem.allowed[b], p, limit)
        for b, p in enumerate([None] * len(problem.T) if prices is None else prices)
    ]
    return (
        np.stack([plan for plan, _, _ in results]),
        np.array([bound for _, bound, _ in results]),
        np.array([status for _, _, status in results]),
    )


def _milp(
    T: Floats, A: Floats, gamma: float, allowed: Bools, price: float | None, limit: float
) -> tuple[Ints, float, str]:
    """One round by HiGHS: binary x_ij, makespan tau and shortfall s; objective tau + price · s."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    M, N = T.shape
    if price is None and A.max(axis=0).mean() < gamma - SLACK:
        return np.full(N, -1), np.inf, "infeasible"
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
        return np.full(N, -1), np.inf, "infeasible"
    bound = 0.0 if result.mip_dual_bound is None else float(result.mip_dual_bound) * unit
    if result.x is None:
        if result.status == 1:
            return np.full(N, -1), bound, "failed"
        raise SolverError(f"HiGHS failed on a ({M}, {N}) round: {result.message}")
    plan = result.x[: M * N].reshape(M, N).argmax(axis=0).astype(np.int64)
    if price is None and reliability(plan, A) < gamma - 1e-6:
        raise SolverError(f"HiGHS returned a plan of reliability {reliability(plan, A):.6g} below gamma {gamma:.6g}")
    return plan, bound, "optimal" if result.status == 0 else "feasible"

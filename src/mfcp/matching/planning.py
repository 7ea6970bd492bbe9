"""The integer matching problem, Eq. (2): one call, many engines, every plan verified before it is returned."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mfcp.arrays import Ints
from mfcp.errors import SolverError
from mfcp.matching.engines.base import Engine
from mfcp.matching.integer.enumeration import few_plans
from mfcp.matching.problem import MatchingProblem, Solution, makespan, objective_value, violations
from mfcp.matching.ties import settled
from mfcp.registry import import_members

PROVEN = 1e-6  # relative gap at which a plan counts as optimal: what HiGHS proves
FALLBACK_PRICE = 20.0  # in units of the fastest makespan: see `solve_or_fall_back`
QUICK_TASKS = 200  # up to which `quick` is a search
# All of their work takes two to four times as long, for some tenth of a percent.
_QUICK_SEARCH = {"kind": "search", "effort": 20_000, "budget": 3_000}
_QUICK_DUAL = {"kind": "dual", "target": 1e-3, "effort": 0.3}


def solve(
    problem: MatchingProblem,
    engine: str | Mapping[str, Any] | Engine = "auto",
    *,
    price: ArrayLike | None = None,
    time_limit: float = 60.0,
    start: Any = None,
) -> Solution:
    """The best plan of every round that the engine finds, with a certified bound.

    Eq. (2) of [Huo2025]_. Of plans of equal objective the most reliable is taken, of these the shortest in total
    (`mfcp.matching.ties`): by all plans where they are few, else by moves and swaps of the engine's plan.

    Args:
        problem: one round (M, N) or a batch (..., M, N).
        engine: a name ("auto", "exact", "dual", …: `mfcp solve --help` lists them), a mapping with it as `kind` and
            its settings, or an `Engine`.
        price: None keeps reliability >= gamma as a constraint; a number (or one per round), in units of the objective
            per unit of reliability, charges the shortfall instead.
        time_limit: seconds per round.
        start: `state` of an earlier solution of a similar problem, for engines that use it.

    Returns:
        A `Solution`; rounds that were proven infeasible have status "infeasible" and assignment -1.

    Raises:
        SettingsError: unknown engine, or one that cannot take this problem.
        SolverError: an engine returned a plan that breaks a constraint.
    """
    begin = time.perf_counter()
    import_members("mfcp.matching.engines")
    batch = problem.T.shape[:-2]
    flat = problem.flat()
    prices = None if price is None else np.broadcast_to(np.asarray(price, np.float64), batch).reshape(-1)
    chosen = Engine.parse(engine).resolve(flat, prices, time_limit)
    chosen.refuse(flat, prices)
    found = chosen.match(flat, price=prices, time_limit=time_limit, start=start)
    planned, assignment = found.assignment[:, 0] >= 0, found.assignment.copy()
    span, value = np.full(len(planned), np.inf), np.full(len(planned), np.inf)
    if planned.any():
        which = flat if planned.all() else flat.take(planned)
        plans = assignment[planned] if chosen.breaks_ties else settled(which, assignment[planned])
        assignment[planned] = plans
        _verify(which, plans, chosen.name, soft=prices is not None)
        span[planned] = makespan(plans, which.T, which.zeta, which.backlog)
        value[planned] = objective_value(which, plans, None if prices is None else prices[planned])
    status = np.where(np.isposinf(found.bound), "infeasible", np.where(planned, "feasible", "failed"))
    bounded = planned & np.isfinite(found.bound)
    status[bounded] = np.where(value[bounded] <= found.bound[bounded] * (1.0 + PROVEN), "optimal", "feasible")
    return Solution(
        assignment=assignment.reshape(*batch, problem.tasks),
        makespan=span.reshape(batch),
        lower_bound=np.minimum(found.bound, value).reshape(batch),
        status=status.reshape(batch),
        seconds=time.perf_counter() - begin,
        engine=chosen.name,
        objective=value.reshape(batch),
        state=found.state or None,
        stats=found.stats,
    )


def solve_or_fall_back(
    problem: MatchingProblem, engine: str | Mapping[str, Any] | Engine = "auto", *, time_limit: float = 60.0
) -> Solution:
    """Plans by Eq. (2); a round without such a plan minimises objective + 20 · (least objective) · shortfall instead.

    Predictions may admit no feasible plan, although the platform must still place the tasks. All methods fall back in
    this way. Such rounds have the status "fallback"; "infeasible" are those that have no plan even at gamma 0. All
    rounds are solved by the engine that was chosen for the whole batch. If `auto` chose again for the few rounds that
    fall back, it might take an engine whose plans depend on the clock.
    """
    import_members("mfcp.matching.engines")
    engine = Engine.parse(engine).resolve(problem.flat(), None, time_limit)
    solution = solve(problem, engine, time_limit=time_limit)
    missing = solution.status == "infeasible"
    if not missing.any():
        return solution
    hard = problem.take(missing)
    least = solve(hard.at(0.0), engine, time_limit=time_limit).objective
    soft = solve(hard, engine, price=FALLBACK_PRICE * np.where(np.isfinite(least), least, 0.0), time_limit=time_limit)
    merged = {}
    for name in ("assignment", "makespan", "lower_bound", "objective"):
        merged[name] = getattr(solution, name).copy()
        merged[name][missing] = getattr(soft, name)
    status = solution.status.astype("<U10")
    status[missing] = np.where(np.isfinite(soft.objective), "fallback", soft.status)
    return Solution(**merged, status=status, seconds=solution.seconds + soft.seconds, engine=solution.engine)


def quick(problem: MatchingProblem) -> str | dict[str, Any]:
    """A fast engine, for plans to start from and makespans to measure in: exact where plans are few."""
    if few_plans(problem):
        return "auto"
    return _QUICK_SEARCH if problem.tasks <= QUICK_TASKS and not problem.extended else _QUICK_DUAL


def _verify(problem: MatchingProblem, plans: Ints, engine: str, *, soft: bool) -> None:
    for name, excess in violations(problem, plans).items():
        if name == "reliability" and soft:
            continue
        if (excess > 0).any():
            worst = int(excess.argmax())
            raise SolverError(f"engine '{engine}' broke '{name}' by {excess[worst]:.6g} in round {worst}; report a bug")

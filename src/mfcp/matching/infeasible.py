"""Why a round has no plan: which constraints, by how much, and the nearest feasible gamma."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.errors import InfeasibleError
from mfcp.matching.integer import enumeration, milp
from mfcp.matching.planning import solve
from mfcp.matching.problem import SLACK, MatchingProblem, Objective, violations

_ELASTIC_AT_MOST = 20_000  # (cluster, task) pairs that HiGHS is given to find the least excess
_AGREE = 1e-5  # relative distance of a bound and a plan that counts as none


@dataclass(frozen=True)
class Excess:
    """By how much a constraint must be exceeded, in its unit: proven at least, and what a plan reaches (inf: none)."""

    least: float
    reached: float

    @property
    def known(self) -> bool:
        """Whether both agree, so that `reached` is the least excess."""
        return self.reached - self.least <= _AGREE * max(abs(self.reached), SLACK)


@dataclass(frozen=True)
class Infeasibility:
    """What stands in the way of a plan; constraints as `violations` names them.

    Attributes:
        where: what errors call the round.
        gamma: least mean reliability that was asked for.
        alone: constraints that no plan meets even if there were no others, with their least excess then.
        together: constraints without which the others can be met, with their least excess under the others; any one
            of them, relaxed by that much for every cluster or task, makes the round feasible.
        names: all constraints of the round.
        nearest_gamma: the largest mean reliability up to gamma that a plan under all other constraints reaches; None
            where they cannot be met, or no plan is known.
        exact: whether no plan is proven to reach more.
    """

    where: str
    gamma: float
    alone: dict[str, Excess]
    together: dict[str, Excess]
    names: tuple[str, ...]
    nearest_gamma: float | None
    exact: bool

    @property
    def message(self) -> str:
        """One line: what, by how much, and what to do."""
        if self.alone:
            parts = [self._alone(name, excess) for name, excess in self.alone.items()]
            return f"{self.where}: {'; '.join(parts)}"
        everything = ", ".join(n if n in ("reliability", "deadline") else f"capacity '{n}'" for n in self.names)
        if not self.together:
            return f"{self.where}: no plan meets {everything} at once; relax two of them or more, or drop tasks"
        ways = [self._way(name, excess) for name, excess in self.together.items()]
        return f"{self.where}: no plan meets {everything} at once; any one of these makes one: {', or '.join(ways)}"

    def _alone(self, name: str, excess: Excess) -> str:
        least = excess.reached if excess.known else excess.least
        by = f"{'' if excess.known else 'at least '}{least:.6g}"
        if name == "reliability":
            best = f"best reachable mean reliability {'' if excess.known else 'at most '}{self.gamma - least:.4g}"
            among = f" ({self._nearest()} under the other constraints)" if len(self.names) > 1 else ""
            return f"{best} < gamma {self.gamma:.4g}{among}; lower gamma or add a cluster"
        if name == "deadline":
            return f"some task is {by} s late under every plan; move deadlines, drop tasks or add a cluster"
        return f"capacity '{name}' is exceeded by {by} under every plan; raise its limits, drop tasks or add a cluster"

    def _way(self, name: str, excess: Excess) -> str:
        by = f"{'' if excess.known else 'at most '}{excess.reached:.6g}"
        if name == "reliability":
            return f"gamma {self.gamma - excess.reached:.6g} instead of {self.gamma:.6g}"
        return f"deadlines {by} s later" if name == "deadline" else f"limits of capacity '{name}' {by} higher"

    def _nearest(self) -> str:
        return "none" if self.nearest_gamma is None else f"{'' if self.exact else 'at least '}{self.nearest_gamma:.6g}"


def explain_infeasible(problem: MatchingProblem, round: int = 0, *, time_limit: float = 5.0) -> Infeasibility:
    """Why a round has no plan, by solving what it becomes with constraints dropped or made elastic.

    Args:
        problem: one round or a batch.
        round: index of the round, batches counted in C order.
        time_limit: seconds for each of the two problems per constraint that are solved.

    Returns:
        Exact for rounds that are enumerated or that HiGHS solves within the limit; else with bounds, which the message
        calls "at least" and "at most".
    """
    one = problem.flat().take(round)
    names = ["reliability"] if one.gamma > SLACK else []
    names += [capacity.name for capacity in one.capacities] + (["deadline"] if one.deadline is not None else [])
    alone, together = {}, {}
    for name in names:
        others = set(names) - {name}
        by_itself = _excess(one.without(others), name, time_limit)
        if by_itself.least > 0:
            alone[name] = by_itself
        least = _excess(one, name, time_limit) if others else by_itself
        if np.isfinite(least.reached):
            together[name] = least
    nearest = together.get("reliability")
    return Infeasibility(
        where=f"round {round} ({one.clusters} clusters, {one.tasks} tasks)",
        gamma=float(one.gamma),
        alone=alone,
        together=together,
        names=tuple(names),
        nearest_gamma=None if nearest is None else float(one.gamma) - nearest.reached,
        exact=nearest is not None and nearest.known,
    )


def _excess(problem: MatchingProblem, name: str, time_limit: float) -> Excess:
    """The least excess of one constraint over all plans that meet the others."""
    problem = problem.reopened() if name == "deadline" else problem
    if enumeration.few_plans(problem):
        plans, _ = enumeration.all_plans(problem.clusters, problem.tasks)
        found = violations(problem.flat().take(np.zeros(len(plans), int)), plans)
        met = np.all([excess == 0 for other, excess in found.items() if other != name], axis=0)
        least = float(found[name][met].min(initial=np.inf))
        return Excess(least, least)
    if name == "reliability":
        return _shortfall(problem, time_limit)
    if problem.zeta is not None or problem.clusters * problem.tasks > _ELASTIC_AT_MOST:
        return Excess(0.0, np.inf)
    plan, bound = milp.least_excess(problem, name, time_limit)
    reached = np.inf if plan is None else float(violations(problem, plan)[name])
    return Excess(min(bound, reached), reached)


def _shortfall(problem: MatchingProblem, time_limit: float) -> Excess:
    """How far below gamma the most reliable plan is: the least Σ_j 1 - a_j as a cost."""
    gamma = float(problem.gamma)
    if problem.deadline is None and not problem.capacities:  # then each task can have its best
        short = max(gamma - float(problem.reachable_gamma()), 0.0)
        return Excess(short, short)
    failing = MatchingProblem(
        problem.T, problem.A, 0.0, problem.allowed, problem.zeta,
        backlog=problem.backlog, capacities=problem.capacities, deadline=problem.deadline,
        objective=Objective(makespan=0.0, cost=1.0), cost=1.0 - np.asarray(problem.A, np.float64),
    )  # fmt: skip
    engine = "auto" if problem.zeta is None else "greedy"  # of all engines that search, this one knows zeta
    solution = solve(failing, engine, time_limit=time_limit)
    least, reached = (gamma - 1.0 + np.array([solution.lower_bound, solution.objective]) / problem.tasks).tolist()
    return Excess(max(reached if solution.status == "optimal" else least, 0.0), max(reached, 0.0))


def require_feasible(problem: MatchingProblem) -> None:
    """Raise where gamma is above what any plan reaches.

    Raises:
        InfeasibleError: names the first such round with both numbers, and with what the other constraints allow.
    """
    short = np.ravel(problem.reachable_gamma() < problem.gamma - SLACK)
    if short.any():
        where = int(np.argmax(short))
        raise InfeasibleError(explain_infeasible(problem, where).message)

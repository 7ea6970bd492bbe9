"""POP: random parts of the tasks, each matched by itself on its share of every cluster; a baseline."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Ints
from mfcp.errors import InfeasibleError
from mfcp.matching.bounds import simple_bound
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.problem import SLACK, Capacity, MatchingProblem, violations


class Pop(Engine):
    """POP-k [Narayanan2021]_: k parts, capacities, backlog and deadlines divided by k, the parts' plans put together.

    Loads add up, so the merged makespan is at most the sum of the parts'. It knows no bound but the simple one, and a
    part can be infeasible where the whole is not: then there is no plan.

    Attributes:
        parts: k.
        seed: of the random split.
        engine: what solves a part, as `solve` takes it.

    .. [Narayanan2021] Narayanan et al., SOSP '21, "Solving large-scale granular resource allocation problems
       efficiently with POP".
    """

    name: ClassVar[str] = "pop"
    takes_extended: ClassVar[bool] = True

    parts: int = Field(4, ge=1)
    seed: int = Field(0, ge=0)
    engine: str | dict[str, Any] = "auto"

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """One part after the other; `start` is not used."""
        if problem.reachable_gamma() < problem.gamma - SLACK:
            return Found(np.full((1, problem.tasks), -1), np.array([np.inf]))
        plan = np.full(problem.tasks, -1)
        order = np.random.default_rng(self.seed).permutation(problem.tasks)
        for tasks in np.array_split(order, min(self.parts, problem.tasks)):
            try:
                part = _part(problem, tasks, min(self.parts, problem.tasks)).flat()
            except InfeasibleError:  # a deadline that a task alone cannot meet in its share of the time
                break
            limit = time_limit * len(tasks) / problem.tasks
            engine = Engine.parse(self.engine).resolve(part, None, limit)
            engine.refuse(part, None)
            plan[tasks] = engine.match(part, price=None, time_limit=limit, start=None).assignment[0]
        if (plan < 0).any() or any(excess > 0 for excess in violations(problem, plan).values()):
            plan[:] = -1
        return Found(plan[None], np.array([float(simple_bound(problem, None))]))


def _part(problem: MatchingProblem, tasks: Ints, parts: int) -> MatchingProblem:
    """Some tasks of a round on 1/parts of every cluster, with the round's own gamma."""
    return MatchingProblem(
        problem.T[:, tasks],
        problem.A[:, tasks],
        problem.gamma,
        problem.allowed[:, tasks],
        backlog=None if problem.backlog is None else problem.backlog / parts,
        capacities=[Capacity(c.name, c.use[:, tasks], c.limit / parts) for c in problem.capacities],
        deadline=None if problem.deadline is None else problem.deadline[tasks] / parts,
        objective=problem.objective,
        cost=None if problem.cost is None else problem.cost[:, tasks],
    )

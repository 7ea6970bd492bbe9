"""Proven optima: all plans when they are few, else HiGHS."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mfcp.matching import exact, milp
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.engines.greedy import Greedy
from mfcp.matching.problem import Floats, MatchingProblem


class Enumerate(Engine):
    """Looks at every plan, batched over rounds."""

    name: ClassVar[str] = "enumerate"
    takes_price: ClassVar[bool] = True
    takes_zeta: ClassVar[bool] = True
    takes_extended: ClassVar[bool] = True

    def match(
        self, problem: MatchingProblem, *, price: Floats | None, time_limit: float, start: list[Any] | None
    ) -> Found:
        """The best of all plans; neither a limit nor a start matters."""
        assignment, bound = exact.enumerate_plans(problem, price)
        return Found(assignment, bound)


class Milp(Engine):
    """A mixed-integer linear program by HiGHS, round by round; at the time limit its best plan and bound."""

    name: ClassVar[str] = "milp"
    takes_price: ClassVar[bool] = True
    takes_extended: ClassVar[bool] = True

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """HiGHS on one round, from a greedy plan where there is one: its value closes most pairs."""
        first = Greedy().match_round(problem, price=price, time_limit=time_limit, start=None).assignment[0]
        plan, bound = milp.milp_round(problem, price, time_limit, None if first[0] < 0 else first)
        return Found(plan[None], np.array([bound]))


class Exact(Engine):
    """Enumeration where plans are few, else the MILP: the referee."""

    name: ClassVar[str] = "exact"

    def resolve(self, problem: MatchingProblem, price: Floats | None) -> Engine:
        """The one of the two that is faster."""
        return Enumerate() if exact.few_plans(problem) else Milp()

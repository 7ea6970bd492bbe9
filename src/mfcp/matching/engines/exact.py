"""Proven optima: all plans when they are few, else HiGHS."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.matching import clock
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.engines.greedy import Greedy
from mfcp.matching.engines.search import Search
from mfcp.matching.integer import enumeration, milp
from mfcp.matching.problem import MatchingProblem

_EFFORT = 1_000_000  # of the search before HiGHS starts


class Enumerate(Engine):
    """Looks at every plan, batched over rounds."""

    name: ClassVar[str] = "enumerate"
    breaks_ties: ClassVar[bool] = True
    takes_price: ClassVar[bool] = True
    takes_zeta: ClassVar[bool] = True
    takes_extended: ClassVar[bool] = True

    def match(
        self, problem: MatchingProblem, *, price: Floats | None, time_limit: float, start: list[Any] | None
    ) -> Found:
        """The best of all plans; neither a limit nor a start matters."""
        assignment, bound = enumeration.enumerate_plans(problem, price)
        return Found(assignment, bound)


class Milp(Engine):
    """A mixed-integer linear program by HiGHS, round by round; at the time limit its best plan and bound."""

    name: ClassVar[str] = "milp"
    takes_price: ClassVar[bool] = True
    takes_extended: ClassVar[bool] = True

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        """HiGHS on one round; the plan that it starts from, greedy or searched, rules out most pairs by its value."""
        begin = clock.seconds()
        if problem.plain and price is None:
            # A good start saves HiGHS far more time than it takes. What it proves is left out: HiGHS judges others.
            search = Search(effort=_EFFORT)
            first = search.match(problem.flat(), price=None, time_limit=time_limit, start=None).assignment[0]
        else:
            first = Greedy().match_round(problem, price=price, time_limit=time_limit, start=None).assignment[0]
        left = time_limit - (clock.seconds() - begin)
        plan, bound = milp.milp_round(problem, price, left, None if first[0] < 0 else first)
        return Found(plan[None], np.array([bound]))


class Exact(Engine):
    """Enumeration where plans are few, else the MILP; other engines are judged by it."""

    name: ClassVar[str] = "exact"

    def resolve(self, problem: MatchingProblem, price: Floats | None, time_limit: float) -> Engine:
        """The one of the two that is faster."""
        return Enumerate() if enumeration.few_plans(problem) else Milp()

"""The default engine: it chooses another one."""

from __future__ import annotations

from typing import ClassVar

from mfcp.arrays import Floats
from mfcp.matching.engines.base import Engine
from mfcp.matching.engines.dual import Dual
from mfcp.matching.engines.exact import Enumerate, Milp
from mfcp.matching.engines.search import Search
from mfcp.matching.integer.enumeration import few_plans
from mfcp.matching.problem import MatchingProblem

_PAIRS = 400  # entries up to which HiGHS proves an optimum in seconds
_FEW_TASKS, _FEW_PAIRS = 4, 2000  # tasks per cluster, and pairs, up to which HiGHS is better than prices
_MANY_ROUNDS, _MANY_SIZE = 16, 2000  # rounds from which on, and M² N up to which, engine `search` is taken
_SECONDS = 2.0  # least time limit with which HiGHS is started


class Auto(Engine):
    """Chooses an engine by size and time; the solution's `engine` tells which."""

    name: ClassVar[str] = "auto"

    def resolve(self, problem: MatchingProblem, price: Floats | None, time_limit: float) -> Engine:
        """Enumeration of few plans; `Search` for many rounds; HiGHS where it ends in seconds; else `Dual`."""
        if few_plans(problem):
            return Enumerate()
        M, N = problem.clusters, problem.tasks
        if len(problem.T) >= _MANY_ROUNDS and M * M * N <= _MANY_SIZE and not problem.extended:
            return Search()
        small = M * N <= _PAIRS or (M * N <= _FEW_PAIRS and N <= _FEW_TASKS * M)
        if small and problem.zeta is None and time_limit >= _SECONDS:
            return Milp()
        return Dual()

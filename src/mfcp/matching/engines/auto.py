"""The engine for those who do not want to choose."""

from __future__ import annotations

from typing import ClassVar

from mfcp.matching.engines.base import Engine
from mfcp.matching.engines.exact import Exact
from mfcp.matching.problem import Floats, MatchingProblem


class Auto(Engine):
    """Chooses by size; the solution's `engine` says which."""

    name: ClassVar[str] = "auto"

    def resolve(self, problem: MatchingProblem, price: Floats | None) -> Engine:
        """Exact."""
        return Exact().resolve(problem, price)

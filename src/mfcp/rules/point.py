"""Take the predictions for the truth: the exact plan at gamma."""

from typing import ClassVar

from mfcp.arrays import Ints
from mfcp.matching.planning import solve_or_fall_back
from mfcp.rules.base import Belief, Rule


class Point(Rule):
    """Eq. (2) with T̂ and Â in place of T and A, as every method of [Huo2025]_ does."""

    name: ClassVar[str] = "point"

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; there is no parameter."""
        return solve_or_fall_back(belief.problem(margin=margin)).assignment

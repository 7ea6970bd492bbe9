"""The point plan at a stricter or looser gamma, chosen on validation rounds."""

from typing import ClassVar

from mfcp.arrays import Ints
from mfcp.matching.planning import solve_or_fall_back
from mfcp.rules.base import Belief, Rule


class Margin(Rule):
    """Eq. (2) at gamma + parameter: the one scalar that explains most of the gain of decision-focused training."""

    name: ClassVar[str] = "margin"
    grid: tuple[float, ...] = (-0.04, -0.02, -0.01, 0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08)

    def candidates(self) -> tuple[float, ...]:
        """The margins on gamma."""
        return self.grid

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; the parameter is the margin."""
        return solve_or_fall_back(belief.problem(margin=parameter + margin)).assignment

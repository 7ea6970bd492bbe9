"""Keep the promise with a stated probability: a chance constraint on reliability instead of a price."""

from typing import ClassVar

from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.matching.expected import least_expected_makespan
from mfcp.rules.base import Belief, Rule
from mfcp.rules.expected_cost import moments_of


class Chance(Rule):
    """argmin E[makespan] subject to P(mean reliability >= gamma) >= 1 - alpha; nothing to tune.

    The reliabilities of a round's pairs are believed independent, so that a plan's is nearly normal. Rounds in which
    no plan keeps the promise take the plan of least charged shortfall, as every rule does (`solve_or_fall_back`).

    Attributes:
        alpha: accepted probability that a plan's reliability is below gamma.
    """

    name: ClassVar[str] = "chance"
    uses_spread: ClassVar[bool] = True
    alpha: float = Field(0.1, gt=0, le=0.5)

    def charged(self, own_sd: Floats, log_sd: Floats) -> Floats:
        """See `Rule.charged`."""
        return own_sd

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; there is no parameter."""
        return least_expected_makespan(moments_of(belief, margin, belief.own_sd), alpha=self.alpha)[0]

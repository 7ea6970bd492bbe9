"""Trade makespan against missing reliability at the user's price, trusting the predictions."""

from typing import ClassVar

from mfcp.arrays import Ints
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.rules.base import Belief, Rule


class Priced(Rule):
    """argmin makespan / unit + price · max(0, gamma - reliability) under T̂ and Â; every round has a plan.

    The metric's own trade without any uncertainty: `expected_cost` with zero spread, by the exact engines. The unit
    is the makespan of the point plan, as it is of the optimal plan in the metric.
    """

    name: ClassVar[str] = "priced"

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; there is no parameter."""
        problem = belief.problem(margin=margin)
        return solve(problem, price=price * solve_or_fall_back(problem).makespan).assignment

"""Pessimism in proportion to uncertainty: upper bounds on time, lower bounds on reliability."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from mfcp.arrays import Ints
from mfcp.matching.planning import solve_or_fall_back
from mfcp.rules.base import Belief, Rule


class UpperBound(Rule):
    """UCB of a minimisation: T̂ · exp(+kappa · log_sd) and Â - kappa · a_sd take the predictions' place."""

    name: ClassVar[str] = "upper_bound"
    uses_spread: ClassVar[bool] = True
    kappa: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0)

    def candidates(self) -> tuple[float, ...]:
        """The values of kappa; a single one is used as it is."""
        return self.kappa

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; the parameter is kappa."""
        bounded = replace(
            belief,
            T=belief.T * np.exp(parameter * belief.log_sd),
            A=np.clip(belief.A - parameter * belief.a_sd, 0.0, 1.0),
        )
        return solve_or_fall_back(bounded.problem(margin=margin)).assignment

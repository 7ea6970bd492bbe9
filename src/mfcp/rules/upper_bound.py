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
        return solve_or_fall_back(bounded(belief, parameter).problem(margin=margin)).assignment


def bounded(belief: Belief, kappa: float) -> Belief:
    """The belief with its bounds, so many deviations away, in the place of the predictions."""
    times = belief.T * np.exp(kappa * belief.log_sd)
    return replace(belief, T=times, A=np.clip(belief.A - kappa * belief.a_sd, 0.0, 1.0))

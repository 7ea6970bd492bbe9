"""Minimise the expected cost under calibrated predictions, instead of the cost under expected ones."""

from typing import ClassVar

import numpy as np

from mfcp.arrays import Ints
from mfcp.matching.expected import Moments, least_expected_cost
from mfcp.rules.base import Belief, Rule

WIDEST = 2.0  # deviation of log time beyond which a log-normal's moments are all tail: e² is a factor of 7 either way


def moments_of(belief: Belief, margin: float) -> Moments:
    """Means and variances of a belief, at gamma + margin: times log-normal, reliabilities as they are."""
    variance = np.minimum(belief.log_sd, WIDEST) ** 2
    mean = belief.T * np.exp(variance / 2)
    return Moments(
        time=mean,
        time_variance=mean**2 * np.expm1(variance),
        reliability=belief.A,
        reliability_variance=belief.a_sd**2,
        gamma=belief.gamma + margin,
        allowed=belief.allowed,
        zeta=belief.zeta,
    )


class ExpectedCost(Rule):
    """argmin E[makespan] / unit + price · E[shortfall]; nothing to tune, and every round has a plan.

    Times are log-normal: mean T̂ exp(s²/2), variance T̂² exp(s²)(exp(s²) - 1) with s the calibrated deviation of
    log time; reliabilities have mean Â and the calibrated deviation.
    """

    name: ClassVar[str] = "expected_cost"
    uses_spread: ClassVar[bool] = True

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; there is no parameter."""
        return least_expected_cost(moments_of(belief, margin), price=price)

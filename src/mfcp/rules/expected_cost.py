"""Minimise the expected cost under calibrated predictions, instead of the cost under expected ones."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.matching.expected import Moments, least_expected_cost
from mfcp.rules.base import Belief, Rule

WIDEST = 2.0  # deviation of log time beyond which a log-normal's moments are all tail: e² is a factor of 7 either way
MOST = 0.2
"""Deviation of log time that is charged at most: larger ones are of some families, and rules take all for alike."""


def moments_of(belief: Belief, margin: float, log_sd: Floats | None = None) -> Moments:
    """Means and variances of a belief, at gamma + margin: times log-normal, reliabilities as they are.

    Args:
        belief: predictions for B rounds.
        margin: added to gamma.
        log_sd: (B, M, N) the deviation of log time that counts; None takes what `ExpectedCost` charges by itself.
    """
    mean, variance = log_normal(belief.T, np.minimum(belief.own_sd, MOST) if log_sd is None else log_sd)
    return Moments(
        time=mean,
        time_variance=variance,
        reliability=belief.A,
        reliability_variance=belief.a_sd**2,
        gamma=belief.gamma + margin,
        allowed=belief.allowed,
        zeta=belief.zeta,
        backlog=belief.backlog,
    )


def log_normal(median: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of what is log-normal, its deviation of logs cut at `WIDEST`."""
    square = np.minimum(sd, WIDEST) ** 2
    mean = median * np.exp(square / 2)
    return mean, mean**2 * np.expm1(square)


class ExpectedCost(Rule):
    """argmin E[makespan] / unit + price · E[shortfall]; nothing to tune, and every round has a plan.

    Times are log-normal: mean T̂ exp(s²/2), variance T̂² exp(s²)(exp(s²) - 1) with s a calibrated deviation of log
    time; reliabilities have mean Â and the calibrated deviation. s is what the clusters of a task do not share (`own`)
    or the whole error (`total`). An error that they share makes the task longer wherever it runs, in the best plan as
    well; and it is by far the greater part, estimated from few families (docs/decisions/0078). No more than `most` is
    charged (docs/decisions/0109).
    """

    name: ClassVar[str] = "expected_cost"
    uses_spread: ClassVar[bool] = True
    charges: Literal["own", "total"] = Field("own", description="which error of log time is charged for")
    most: float = Field(MOST, gt=0, le=WIDEST, description="deviation of log time that is charged at most")

    def charged(self, own_sd: Floats, log_sd: Floats) -> Floats:
        """See `Rule.charged`."""
        return np.minimum(own_sd if self.charges == "own" else log_sd, self.most)

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; there is no parameter."""
        log_sd = self.charged(belief.own_sd, belief.log_sd)
        return least_expected_cost(moments_of(belief, margin, log_sd), price=price)

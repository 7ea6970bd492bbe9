"""The plan that the paper deploys: relaxed by its Algorithm 1, then every task to where most of it is."""

from typing import ClassVar

import numpy as np
import torch
from pydantic import Field

from mfcp.arrays import Ints
from mfcp.matching.reference.literal import (
    PRINTED_BETA,
    PRINTED_LAM,
    PRINTED_RATE,
    PRINTED_STEPS,
    printed_problem,
    softmax_descent,
)
from mfcp.matching.relaxed.objective import balanced_makespan
from mfcp.rules.base import Belief, Rule
from mfcp.rules.upper_bound import UpperBound, bounded


class Rounded(Rule):
    """argmax of X(T̂, Â) of Algorithm 1 of [Huo2025]_ in every column: the paper's plans, in place of exact ones.

    A pair that may not be chosen gets no task; nothing else is repaired: plans may miss gamma, as the paper's may.
    """

    name: ClassVar[str] = "rounded"
    beta: float = Field(PRINTED_BETA, gt=0, description="sharpness of the smooth maximum, per balanced makespan")
    lam: float = Field(PRINTED_LAM, gt=0, description="weight of the reliability barrier")

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; there is no parameter."""
        problem = belief.problem(margin=margin)
        times = torch.tensor(np.where(problem.allowed, problem.T, 1.0))
        A, gamma, allowed = (torch.tensor(values) for values in (problem.A, problem.gamma, problem.allowed))
        times = times / balanced_makespan(times, allowed)[:, None, None]
        printed = printed_problem(times, A, gamma, self.beta, self.lam, allowed)
        shares = softmax_descent(printed, steps=PRINTED_STEPS, rate=PRINTED_RATE).numpy()
        result: Ints = np.where(problem.allowed, shares, -1.0).argmax(axis=1)
        return result


class RoundedUpperBound(UpperBound):
    """UCB with the plans of `rounded`."""

    name: ClassVar[str] = "rounded_upper_bound"

    def plan(self, belief: Belief, *, parameter: float, price: float, margin: float = 0.0) -> Ints:
        """See `Rule.plan`; the parameter is kappa."""
        return Rounded().plan(bounded(belief, parameter), parameter=0.0, price=price, margin=margin)

"""The paper's small example: the predictor that is closer to the times leads to the worse matching."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem, makespan
from mfcp.paper.study_file import Example

_STEPS = 61  # slopes tried per cluster


@dataclass(frozen=True)
class Fitted:
    """A predictor of the example and what it leads to.

    Attributes:
        predicted: (M, N) seconds.
        squared_error: mean over all pairs.
        plan: (N,) the cluster of each task.
        makespan: seconds of that plan under the true times.
    """

    predicted: Floats
    squared_error: float
    plan: Ints
    makespan: float


def worked(example: Example) -> tuple[Fitted, Fitted, float]:
    """The fit by squared error, the fit by the plan it leads to, and the best makespan of all.

    Both predict time = slope · feature with one slope a cluster. The first takes least squares; the second the slopes
    whose plan ends earliest under the true times, among a grid around the first, the closest in squared error first.
    """
    z, T = np.array(example.feature, float), np.array(example.times, float)
    least_squares = T @ z / (z @ z)
    grid = np.linspace(0.5, 2.0, _STEPS)
    factors = np.stack(np.meshgrid(*[grid] * len(T), indexing="ij"), axis=-1).reshape(-1, len(T))
    slopes = np.concatenate([least_squares[None], least_squares * factors])
    predicted = slopes[:, :, None] * z
    error = ((predicted - T) ** 2).mean(axis=(1, 2))
    plans = solve(_unconstrained(predicted)).assignment
    spans = makespan(plans, np.broadcast_to(T, predicted.shape))
    best = np.lexsort((error, spans))[0]
    optimum = float(solve(_unconstrained(T[None])).makespan[0])
    by_error, by_plan = (Fitted(predicted[k], float(error[k]), plans[k], float(spans[k])) for k in (0, best))
    return by_error, by_plan, optimum


def _unconstrained(T: Floats) -> MatchingProblem:
    return MatchingProblem(T=T, A=np.ones_like(T), gamma=0.0)

"""What a plan made from predictions costs under the truth, Eq. (6) of [Huo2025]_."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.matching.problem import SLACK, MatchingProblem, makespan, reliability

PRICE = 4.0
"""Makespans per unit of missing reliability: a point missed costs as much as four points of makespan."""


def regret(assignment: Ints, optimal: Ints, T: Floats, zeta: Floats | None = None) -> Floats:
    """(...) extra seconds per task of a plan over the optimal one, both under true times.

    Eq. (6) of [Huo2025]_: (f(X(T̂, Â), T) - f(X(T, A), T)) / N, what Eq. (5) minimises. Both plans are
    integer and exact, so no smoothing enters. Negative only where the plan breaks the reliability constraint
    that `optimal` keeps.

    Args:
        assignment: (..., N) plan made from predictions.
        optimal: (..., N) exact optimum under the true times, reliabilities and gamma.
        T: (..., M, N) true seconds.
        zeta: (M, N + 1) factors of parallel execution, see `MatchingProblem`.
    """
    result: Floats = (makespan(assignment, T, zeta) - makespan(optimal, T, zeta)) / assignment.shape[-1]
    return result


def penalised_cost(assignment: Ints, problem: MatchingProblem, *, price: float, unit: Floats) -> Floats:
    """(...) makespan in units of `unit` plus `price` times the missing reliability.

    cost(X) = f(X, T) / unit + price · max(0, gamma - reliability(X)): with `unit` the optimal makespan of the
    round, the cost whose excess over its own minimum is the headline metric. A plan over a forbidden pair costs inf.

    Args:
        assignment: (..., N) plan.
        problem: the rounds under the truth (..., M, N).
        price: cost of one unit of missing mean reliability, in makespans.
        unit: (...) seconds.
    """
    short = np.maximum(problem.gamma - reliability(assignment, problem.A), 0.0)
    span = makespan(assignment, problem.T, problem.zeta, problem.backlog)
    result: Floats = span / unit + price * np.where(short > SLACK, short, 0.0)
    return result

"""What a plan made from predictions costs under the truth, Eqs. (5)-(6) of [Huo2025]_."""

from __future__ import annotations

from mfcp.matching.problem import Floats, Ints, makespan


def regret(assignment: Ints, optimal: Ints, T: Floats, zeta: Floats | None = None) -> Floats:
    """(...) extra seconds per task of a plan over the optimal one, both under true times.

    Eq. (6) of [Huo2025]_: (f(X(T̂, Â), T) - f(X(T, A), T)) / N, the per-task form of Eq. (5). Both plans are
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

"""Lower bounds of the objective that need no solver."""

from __future__ import annotations

import numpy as np

from mfcp.matching.problem import Floats, MatchingProblem


def span_bound(problem: MatchingProblem) -> Floats:
    """(...) seconds that no plan's makespan is below: the worst task alone, and all work shared evenly.

    max of max_j min_i (b_i + t_ij) and the least tau with Σ_i max(0, tau - b_i) >= Σ_j min_i t_ij; under parallel
    execution t_ij counts at the cluster's lowest factor.
    """
    fastest, _ = _least_times(problem)
    work = fastest.sum(axis=-1, dtype=np.float64)
    if problem.backlog is None:
        even = work / problem.clusters
    else:  # the first k clusters to be free share the work; the best k gives the least tau
        starts = np.sort(problem.backlog, axis=-1)
        even = ((work[..., None] + starts.cumsum(axis=-1)) / np.arange(1, problem.clusters + 1)).min(axis=-1)
    result: Floats = np.maximum(even, least_end(problem)).astype(np.float64)
    return result


def least_end(problem: MatchingProblem) -> Floats:
    """(...) seconds before which no plan ends: max_j min_i (b_i + t_ij)."""
    ends: Floats = _least_times(problem)[1].max(axis=-1)
    return ends


def simple_bound(problem: MatchingProblem, prices: Floats | None) -> Floats:
    """(...) what the objective, with prices (...) of shortfall if any, is never below: every term at its own least."""
    weights = problem.objective
    bound = weights.makespan * span_bound(problem)
    if weights.total_time:
        bound = bound + weights.total_time * _least_times(problem)[0].sum(axis=-1, dtype=np.float64)
    if weights.cost and problem.cost is not None:
        bound = bound + weights.cost * np.where(problem.allowed, problem.cost, np.inf).min(axis=-2).sum(axis=-1)
    if prices is not None:
        bound = bound + prices * np.maximum(problem.gamma - problem.reachable_gamma(), 0.0)
    return bound


def _least_times(problem: MatchingProblem) -> tuple[Floats, Floats]:
    """(..., N) least seconds that each task adds to a cluster, and least seconds after which it can be done."""
    times = problem.T
    if problem.zeta is not None:
        times = times * problem.zeta[:, 1:].min(axis=1)[:, None]
    fastest: Floats = times.min(axis=-2)
    return fastest, fastest if problem.backlog is None else (times + problem.backlog[..., None]).min(axis=-2)

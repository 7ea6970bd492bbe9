"""Lower bounds of the objective that need no solver."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.matching.problem import MatchingProblem


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


def apart_bound(problem: MatchingProblem, floor: float) -> float:
    """The least makespan, `floor` or above, at which the longest tasks of one round find clusters of their own.

    Two tasks that each take more than (V - b_i) / 2 on every cluster share none in a plan that ends by V; so the plan
    matches all such tasks to clusters, on which each alone ends by V.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    wait = None if problem.backlog is None else problem.backlog[:, None]
    factor = None if problem.zeta is None else problem.zeta[:, 1:].min(axis=1)[:, None]

    def ends_of(tasks: slice | Ints, share: float) -> Floats:
        """(M, ...) least seconds on each cluster, a share of its backlog included."""
        T = problem.T[:, tasks] if factor is None else factor * problem.T[:, tasks]
        return T if wait is None else T + share * wait

    # In parts: a whole copy of T would be the largest thing in memory.
    parts = [slice(low, low + 4096) for low in range(0, problem.tasks, 4096)]
    halves = [2.0 * ends_of(part, 0.5).min(axis=0).astype(np.float64) for part in parts]
    half = np.concatenate(halves)
    long_tasks = np.flatnonzero(half > floor)
    if len(long_tasks) < 2:
        return floor
    half, ends = half[long_tasks], ends_of(long_tasks, 1.0).T.astype(np.float64)

    def possible(value: float) -> bool:
        if (half > value).sum() > problem.clusters:
            return False
        graph = csr_array(ends[half > value] <= value)
        return bool((maximum_bipartite_matching(graph, perm_type="column") >= 0).all())

    levels = np.unique(np.concatenate([half, ends[np.isfinite(ends)]]))
    levels = np.append(floor, levels[levels > floor])
    low, high = -1, len(levels) - 1  # not possible, possible: nothing is a long task at the last level
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if possible(levels[middle]) else (middle, high)
    return float(levels[high])


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

"""Rounds of many tasks, and their linear relaxation by HiGHS."""

import numpy as np
from scipy.optimize import linprog

from mfcp.matching.problem import MatchingProblem


def unrelated(M, N, seed, *, sigma=1.0, gamma=0.9, **options):
    rng = np.random.default_rng([seed, M, N])
    T = rng.lognormal(0, sigma, N) * rng.lognormal(0, 0.4, (M, 1)) * rng.lognormal(0, 0.3, (M, N))
    return MatchingProblem(T, rng.uniform(0.7, 1.0, (M, N)), gamma, **options)


def relaxed(problem):
    """The linear relaxation by HiGHS: makespan, reliability, and one capacity at most; without backlog."""
    M, N = problem.clusters, problem.tasks
    weights = problem.objective
    each = np.arange(M * N)
    load = np.zeros((M, M * N + 1))
    T = np.where(problem.allowed, problem.T, 0.0)
    load[each // N, each] = T.ravel()
    load[:, -1] = -1.0
    rows, limits = [load], [np.zeros(M)]
    for capacity in problem.capacities:
        used = np.zeros((M, M * N + 1))
        used[each // N, each] = capacity.use.ravel()
        rows, limits = [*rows, used], [*limits, capacity.limit]
    rows.append(np.append(-problem.A.ravel(), 0.0)[None])
    limits.append([-problem.gamma * N])
    once = np.zeros((N, M * N + 1))
    once[each % N, each] = 1.0
    cost = weights.total_time * T.ravel()
    if problem.cost is not None:
        cost = cost + weights.cost * problem.cost.ravel()
    found = linprog(
        np.append(cost, weights.makespan), np.concatenate(rows), np.concatenate(limits), once, np.ones(N),
        bounds=[(0, 1 if ok else 0) for ok in problem.allowed.ravel()] + [(0, None)],
    )  # fmt: skip
    assert found.status == 0
    return found.fun


def sized(sizes, M, rng):
    """Tasks of these sizes on M clusters that differ in speed."""
    T = sizes * rng.lognormal(0, 0.4, (M, 1)) * rng.lognormal(0, 0.3, (M, len(sizes)))
    return MatchingProblem(T, rng.uniform(0.7, 1.0, T.shape), 0.9)


def heavy(M, N, index, seed):
    """Pareto sizes of that index: one task may be longer than all the others need."""
    rng = np.random.default_rng([seed, M, N])
    return sized(1.0 + rng.pareto(index, N), M, rng)

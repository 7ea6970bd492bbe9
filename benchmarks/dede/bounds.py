"""Optima of cluster scheduling at sizes where a linear program of all pairs is too large, with their proofs.

Few of the M · N pairs of a type and a job are used: a vertex has at most M + 2 N positive shares. So HiGHS solves the
program on some pairs; its prices say what every other pair would gain, and the best of these come in, until none gains.
Prices p of types and weights π of jobs bound the optimum whatever pairs are in:

    max-min        p·W + Σ_j max(0, max_k (π_j s_kj - p_k g_j)),                                       Σ π = 1
    proportional   p·W + Σ_j min_{μ >= 0} μ + log max_k (s_kj / (p_k g_j + μ)) - 1                      (of Σ log u)

The second is the dual of Σ log u; its prices are those of the program whose objective is Σ u_j / u_j' at an allocation
u' that is nearly optimal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.dede.cluster_scheduling import Jobs

CLOSE = 1e-4  # relative gap of value and bound at which no more pairs come in
MOST = 60  # programs
NEW = 4  # pairs a job that may come in at once
_SECTIONS = 40  # golden ones, of the scalar problem


@dataclass(frozen=True)
class Bound:
    """A value, the shares (M, N) that reach it, one that cannot be exceeded, and the prices (M,) that prove it."""

    value: float
    bound: float
    prices: np.ndarray
    shares: np.ndarray


def max_min_bound(jobs: Jobs, near: np.ndarray, advance: Callable[[], Any] = lambda: None) -> Bound:
    """The largest least utility, from shares (M, N) that are nearly optimal."""
    return _generated(jobs, near, None, advance)


def proportional_bound(jobs: Jobs, near: np.ndarray, advance: Callable[[], Any] = lambda: None) -> Bound:
    """The largest geometric mean of utilities, from shares (M, N) that are nearly optimal; the value is theirs."""
    utility = (jobs.s * near).sum(axis=0)
    prices = _generated(jobs, near, 1.0 / utility, advance).prices
    value, N = float(np.exp(np.log(utility).mean())), len(utility)
    return Bound(value, float(np.exp(_dual(jobs, prices) / N)), prices, near)


def _first_pairs(jobs: Jobs) -> np.ndarray:
    """(M, N) pairs to begin with: of each job the fastest types, and as many at random, lest a type is idle."""
    rng, held = np.random.default_rng(0), np.zeros(jobs.s.shape, bool)
    for score in (jobs.s, np.where(jobs.s > 0, rng.random(jobs.s.shape), 0.0)):
        np.put_along_axis(held, np.argsort(-score, axis=0, kind="stable")[: 2 * NEW], True, axis=0)
    return held & (jobs.s > 0)


def _generated(jobs: Jobs, near: np.ndarray, weight: np.ndarray | None, advance: Callable[[], Any]) -> Bound:
    held = ((near > 1e-5) & (jobs.s > 0)) | _first_pairs(jobs)
    for _ in range(MOST):
        k, j = np.nonzero(held)
        value, prices, pi, x = _solved(jobs, k, j, weight)
        gain = np.where(jobs.s > 0, pi * jobs.s - prices[:, None] * jobs.g, -np.inf)
        bound = float(prices @ jobs.W + np.maximum(gain.max(axis=0), 0.0).sum())
        advance()
        if bound <= (1 + CLOSE) * value:
            break
        inside, outside = np.where(held, gain, -np.inf).max(axis=0), np.where(held, -np.inf, gain)
        for _ in range(NEW):
            best = outside.argmax(axis=0)
            job = np.flatnonzero(outside[best, np.arange(len(best))] > np.maximum(inside, 0.0) + 1e-12)
            held[best[job], job] = True
            outside[best, np.arange(len(best))] = -np.inf
    return Bound(value, bound, prices, x)


def _solved(
    jobs: Jobs, k: np.ndarray, j: np.ndarray, weight: np.ndarray | None
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Value, prices (M,) of types, weights (N,) of jobs and shares (M, N) of the program on pairs (k, j)."""
    from scipy import sparse
    from scipy.optimize import linprog

    (M, N), P = jobs.s.shape, len(k)
    pairs = np.arange(P)
    types = sparse.csr_matrix((jobs.g[j], (k, pairs)), (M, P))
    asked = sparse.csr_matrix((np.ones(P), (j, pairs)), (N, P))
    limit = np.concatenate([jobs.W, np.ones(N)])
    if weight is not None:
        rows = sparse.vstack([types, asked]).tocsr()
        result = linprog(-weight[j] * jobs.s[k, j], A_ub=rows, b_ub=limit, method="highs-ipm")
        x = sparse.csr_matrix((result.x, (k, j)), (M, N)).toarray()
        return -result.fun, -result.ineqlin.marginals[:M], weight, x
    level = sparse.hstack([sparse.csr_matrix((-jobs.s[k, j], (j, pairs)), (N, P)), np.ones((N, 1))])
    above = sparse.hstack([sparse.vstack([types, asked]), sparse.csr_matrix((M + N, 1))])
    rows = sparse.vstack([above, level]).tocsr()
    cost = np.append(np.zeros(P), -1.0)
    result = linprog(cost, A_ub=rows, b_ub=np.append(limit, np.zeros(N)), method="highs-ipm")
    duals = np.maximum(-result.ineqlin.marginals, 0.0)
    pi = duals[M + N :]
    x = sparse.csr_matrix((result.x[:-1], (k, j)), (M, N)).toarray()
    return -result.fun, duals[:M] / pi.sum(), pi / pi.sum(), x


def _dual(jobs: Jobs, prices: np.ndarray) -> float:
    """Of Σ log u at these prices: an upper bound whatever μ is, so a golden section is exact enough."""
    cost, N = np.maximum(prices, 0.0)[:, None] * jobs.g, len(jobs.g)

    def value(mu: np.ndarray) -> np.ndarray:
        best: np.ndarray = np.where(jobs.s > 0, jobs.s / (cost + mu + 1e-12), 0.0).max(axis=0)
        return mu + np.log(best) - 1

    low, high = np.zeros(N), np.full(N, 50.0)
    for _ in range(_SECTIONS):
        a, b = low + 0.382 * (high - low), low + 0.618 * (high - low)
        left = value(a) < value(b)
        low, high = np.where(left, low, a), np.where(left, b, high)
    return float(np.maximum(prices, 0.0) @ jobs.W + value(0.5 * (low + high)).sum())


def best_max_min(jobs: Jobs) -> np.ndarray:
    """(M, N) optimal shares, by programs of few pairs."""
    return _generated(jobs, np.zeros_like(jobs.s), None, lambda: None).shares


def best_proportional(jobs: Jobs) -> np.ndarray:
    """(M, N) nearly optimal shares: Clarabel on some pairs, to which those come whose prices say that they gain."""
    held = _first_pairs(jobs)
    for _ in range(MOST):
        x, prices, asked = _logarithms(jobs, *np.nonzero(held))
        utility = np.maximum((jobs.s * x).sum(axis=0), 1e-12)
        if _dual(jobs, prices) / len(utility) - np.log(utility).mean() <= CLOSE:
            break
        gain = np.where(jobs.s > 0, jobs.s / utility - prices[:, None] * jobs.g - asked, -np.inf)
        outside = np.where(held, -np.inf, gain)
        for _ in range(NEW):
            best = outside.argmax(axis=0)
            job = np.flatnonzero(outside[best, np.arange(len(best))] > 0)
            held[best[job], job] = True
            outside[best, np.arange(len(best))] = -np.inf
    return x


def _logarithms(jobs: Jobs, k: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(M, N) shares, prices (M,) of types and (N,) of jobs' time, of the program on pairs (k, j)."""
    import cvxpy
    from scipy import sparse

    (M, N), P = jobs.s.shape, len(k)
    pairs = np.arange(P)
    x = cvxpy.Variable(P, nonneg=True)
    types = sparse.csr_matrix((jobs.g[j], (k, pairs)), (M, P)) @ x <= jobs.W
    asked = sparse.csr_matrix((np.ones(P), (j, pairs)), (N, P)) @ x <= 1
    utility = sparse.csr_matrix((jobs.s[k, j], (j, pairs)), (N, P)) @ x
    with warnings.catch_warnings():
        # What is less accurate is repaired, and any prices bound the optimum.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(cvxpy.log(utility))), [types, asked]).solve(solver="CLARABEL")
    shares = np.zeros((M, N))
    shares[k, j] = np.maximum(x.value, 0.0)
    return shares, np.maximum(types.dual_value, 0.0), np.maximum(asked.dual_value, 0.0)

"""Seeded matching rounds that the benchmarks share: light and heavy tails, and the cases that break solvers.

Every family is a function (M, N, seed) -> (T, A, gamma), T in seconds and A in float32; gamma lies `tight` of the way
from the reliability of every task's fastest cluster to the best reachable one, so that it binds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Instance = tuple[np.ndarray, np.ndarray, float]


def unrelated(
    sizes: np.ndarray, speeds: np.ndarray, affinity: float, tight: float, rng: np.random.Generator
) -> Instance:
    """t_ij = size_j / speed_i · exp(affinity · normal); reliability differs by cluster and by pair."""
    M, N = len(speeds), len(sizes)
    T = rng.standard_normal((M, N), dtype=np.float32)
    T *= np.float32(affinity)
    np.exp(T, out=T)
    T *= sizes.astype(np.float32)
    T /= speeds.astype(np.float32)[:, None]
    A = rng.random((M, N), dtype=np.float32)
    A *= np.float32(0.25)
    A += np.float32(0.1) * rng.random(M, dtype=np.float32)[:, None]
    np.subtract(np.float32(0.995), A, out=A)
    return T, A, binding(T, A, tight)


def binding(T: np.ndarray, A: np.ndarray, tight: float) -> float:
    """gamma `tight` of the way from the reliability of the fastest choices to the best one."""
    fast = float(A[T.argmin(0), np.arange(T.shape[1])].mean(dtype=np.float64))
    best = float(A.max(0).mean(dtype=np.float64))
    return fast + tight * (best - fast)


def light(M: int, N: int, seed: int) -> Instance:
    """Log-normal sizes, sigma 0.7; affinity 0.5."""
    rng = np.random.default_rng([seed, M, N, 1])
    return unrelated(rng.lognormal(0, 0.7, N), rng.lognormal(0, 0.4, M), 0.5, 0.6, rng)


def lognormal(M: int, N: int, seed: int) -> Instance:
    """Log-normal sizes, sigma 1; affinity 0.3."""
    rng = np.random.default_rng([seed, M, N, 2])
    return unrelated(rng.lognormal(0, 1.0, N), rng.lognormal(0, 0.4, M), 0.3, 0.6, rng)


def pareto(M: int, N: int, seed: int) -> Instance:
    """Pareto sizes, index 1.5 (infinite variance); affinity 0.3."""
    rng = np.random.default_rng([seed, M, N, 3])
    return unrelated(1.0 + rng.pareto(1.5, N), rng.lognormal(0, 0.4, M), 0.3, 0.6, rng)


def extreme(M: int, N: int, seed: int) -> Instance:
    """Log-normal sizes, sigma 1.7; affinity 0.3: a few tasks may be longer than all the others need."""
    rng = np.random.default_rng([seed, M, N, 8])
    return unrelated(rng.lognormal(0, 1.7, N), rng.lognormal(0, 0.4, M), 0.3, 0.6, rng)


def identical(M: int, N: int, seed: int) -> Instance:
    """All tasks alike: every price is a tie."""
    rng = np.random.default_rng([seed, M, N, 4])
    T = np.repeat((1.0 / rng.lognormal(0, 0.4, M)).astype(np.float32)[:, None], N, 1)
    A = np.repeat((0.995 - 0.3 * rng.random(M)).astype(np.float32)[:, None], N, 1)
    return T, A, binding(T, A, 0.5)


def giants(M: int, N: int, seed: int) -> Instance:
    """M // 4 tasks that each fill a cluster for most of the round, among small ones."""
    rng = np.random.default_rng([seed, M, N, 5])
    sizes = rng.lognormal(0, 0.7, N)
    many = max(1, M // 4)
    sizes[:many] = 0.9 * sizes.sum() / M * rng.uniform(0.8, 1.2, many)
    return unrelated(sizes, rng.lognormal(0, 0.4, M), 0.3, 0.6, rng)


def one_fast(M: int, N: int, seed: int) -> Instance:
    """One cluster 50 times faster than the others."""
    rng = np.random.default_rng([seed, M, N, 6])
    speeds = rng.lognormal(0, 0.4, M)
    speeds[0] *= 50
    return unrelated(rng.lognormal(0, 0.7, N), speeds, 0.3, 0.6, rng)


def tight(M: int, N: int, seed: int) -> Instance:
    """gamma 98 % of the way to the best reachable reliability."""
    rng = np.random.default_rng([seed, M, N, 7])
    return unrelated(rng.lognormal(0, 0.7, N), rng.lognormal(0, 0.4, M), 0.5, 0.98, rng)


FAMILIES: dict[str, Callable[[int, int, int], Instance]] = {
    family.__name__: family for family in (light, lognormal, pareto, extreme, identical, giants, one_fast, tight)
}

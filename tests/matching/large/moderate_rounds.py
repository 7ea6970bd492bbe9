"""Rounds whose clusters differ moderately."""

import numpy as np

from mfcp.matching.problem import MatchingProblem


def unrelated(M, N, seed, gamma=0.85):
    rng = np.random.default_rng(seed)
    T = rng.lognormal(0, 0.7, N) * rng.lognormal(0, 0.4, M)[:, None] * rng.lognormal(0, 0.4, (M, N))
    return MatchingProblem(T, 0.99 - 0.3 * rng.random((M, N)), gamma)

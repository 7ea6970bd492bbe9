"""Rounds of a few tasks, drawn in many ways."""

import numpy as np

from mfcp.matching.problem import MatchingProblem
from mfcp.matching.speedup import SpeedUp


def rounds(M, N, B, seed, *, gamma=None, masked=True, parallel=False, sigma=0.8, ties=False):
    rng = np.random.default_rng(seed)
    T, A = rng.lognormal(0, sigma, (B, M, N)), rng.uniform(0.5, 1.0, (B, M, N))
    if ties:
        T, A = rng.integers(1, 4, (B, M, N)).astype(float), rng.integers(5, 11, (B, M, N)) / 10
    allowed = np.ones((B, M, N), bool)
    if masked:
        allowed = rng.random((B, M, N)) < 0.8
        np.put_along_axis(allowed, rng.integers(M, size=(B, 1, N)), True, axis=1)
    level = rng.choice([0.0, 0.75, 0.85, 0.95], B) if gamma is None else gamma
    zeta = SpeedUp(rng.uniform(0.4, 1.0, M), rng.uniform(0.5, 3.0, M)).table(M, N) if parallel else None
    return MatchingProblem(T, A, level, allowed, zeta)

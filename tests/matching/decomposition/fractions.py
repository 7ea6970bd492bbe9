"""Problems for the fractional matching."""

import numpy as np
from hypothesis import strategies as st

from mfcp.errors import InfeasibleError
from mfcp.matching.problem import Capacity, MatchingProblem, Objective


@st.composite
def platforms(draw):
    """Small rounds with everything that a platform adds, feasible or not."""
    M, N, rng = draw(st.integers(1, 3)), draw(st.integers(1, 5)), np.random.default_rng(draw(st.integers(0, 10_000)))
    T, A, allowed = rng.lognormal(0, 1, (M, N)), rng.uniform(0.5, 1, (M, N)), rng.random((M, N)) < 0.8
    allowed[rng.integers(M)] = True
    extra = {}
    if draw(st.booleans()):
        extra["backlog"] = rng.exponential(2, M)
    if draw(st.booleans()):
        extra["capacities"] = [Capacity("memory", rng.random(N), rng.random(M) * N)]
    if draw(st.booleans()):
        extra["deadline"] = np.where(rng.random(N) < 0.5, np.inf, 2 + rng.random(N) * 6)
    if draw(st.booleans()):
        extra |= {"objective": Objective(1.0, 0.2, 0.5), "cost": rng.random((M, N))}
    try:
        return MatchingProblem(T, A, draw(st.sampled_from([0.0, 0.7, 0.8])), allowed, **extra)
    except InfeasibleError:
        return MatchingProblem(T, A, 0.7)


def drawn(M, N, seed, tight=0.6):
    """A round whose gamma binds, T in arbitrary seconds."""
    rng = np.random.default_rng(seed)
    T = 40 * rng.lognormal(0, 0.8, N) / rng.lognormal(0, 0.4, (M, 1)) * np.exp(0.4 * rng.standard_normal((M, N)))
    A = 0.99 - 0.3 * rng.random((M, N)) - 0.1 * rng.random((M, 1))
    fast, best = A[T.argmin(0), np.arange(N)].mean(), A.max(0).mean()
    return MatchingProblem(T, A, fast + tight * (best - fast))

"""The fractional matching of ADMM: its optimum, its certificate, and a warm start."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.decomposition.fractions import drawn
from scipy import sparse
from scipy.optimize import linprog

from mfcp.matching.decomposition.alternating_directions import (
    iterate,
)
from mfcp.matching.decomposition.fractional import Multipliers, RelaxedMatching
from mfcp.matching.engines.admm import Admm
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem

seeds = st.integers(0, 2**32 - 1)


def relaxed_optimum(problem):
    """The least fractional makespan, by HiGHS."""
    (M, N), unit = problem.T.shape, problem.T.min(0).sum() / problem.T.shape[0]
    load = sparse.hstack([sparse.block_diag(list((problem.T / unit)[:, None])), -np.ones((M, 1))])
    mean = np.append(-problem.A.ravel() / N, 0.0)[None]
    once = sparse.hstack([sparse.hstack([sparse.eye(N)] * M), sparse.csr_matrix((N, 1))])
    return (
        unit
        * linprog(
            np.append(np.zeros(M * N), 1.0),
            A_ub=sparse.vstack([load, mean]),
            b_ub=np.append(np.zeros(M), -float(problem.gamma)),
            A_eq=once,
            b_eq=np.ones(N),
        ).fun
    )


@pytest.mark.parametrize(("M", "N", "seed"), [(3, 50, 0), (8, 60, 1), (10, 100, 2), (20, 200, 3)])
def test_fractions_and_bound_reach_the_optimum_of_the_linear_program(M, N, seed):
    problem = drawn(M, N, seed)
    optimum = relaxed_optimum(problem)
    blocks = RelaxedMatching(problem, [])
    bound, value = 0.0, np.inf
    for state in itertools.islice(iterate(blocks, blocks.cold()), 999, 1000):
        for candidate in (state, state.average()):
            bound = max(bound, blocks.bound(blocks.multipliers(candidate)))
            value = min(value, blocks.value(candidate))
    assert optimum * (1 - 1e-3) <= bound <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= value <= optimum * (1 + 5e-3)


@given(seeds, st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=40)
def test_any_prices_certify(seed, M, N):
    problem, rng = drawn(M, N, seed, tight=0.9), np.random.default_rng(seed)
    blocks = RelaxedMatching(problem, [])
    bound = blocks.bound(Multipliers(rng.dirichlet(np.ones(M))[None], 10 * rng.random()))
    assert bound <= relaxed_optimum(problem) * (1 + 1e-7)


def test_warm_start_after_a_change_of_all_times_takes_less_than_half():
    cold = warm = 0
    for M, N, seed in itertools.product((3, 10), (50, 200), (0, 1, 2)):
        problem, rng = drawn(M, N, seed), np.random.default_rng(seed)
        changed = MatchingProblem(
            problem.T * np.exp(0.05 * rng.standard_normal(problem.T.shape)), problem.A, problem.gamma
        )
        engine = Admm(tolerance=0.01)
        start = solve(problem, engine).state
        cold += int(solve(changed, engine).stats["iterations"][0])
        warm += int(solve(changed, engine, start=start).stats["iterations"][0])
    assert warm < cold / 2

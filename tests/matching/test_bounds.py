"""Bounds that need no solver are below every plan."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, platforms

from mfcp.matching.bounds import apart_bound, least_end, simple_bound, span_bound
from mfcp.matching.problem import MatchingProblem, objective_value


@given(platforms())
@settings(max_examples=200)
def test_simple_bounds_are_below_every_plan(given):
    problem = built(given)
    assume(problem is not None)
    for price in (None, 3.0):
        best = best_by_hand(given, price)
        bound = simple_bound(problem, None if price is None else np.asarray(price))
        assert bound <= best * (1 + 1e-12)


def test_simple_bounds_by_hand():
    T = np.array([[2.0, 4.0], [3.0, 3.0]])
    A = np.full((2, 2), 0.5)
    assert span_bound(MatchingProblem(T, A, 0.0)) == 3.0  # the second task alone
    assert span_bound(MatchingProblem(T, A, 0.0, backlog=[10.0, 1.0])) == 6.0  # both after one second on the other
    assert simple_bound(MatchingProblem(T, A, 0.7), np.asarray(10.0)) == pytest.approx(3.0 + 10 * 0.2)


@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_tasks_that_share_no_cluster_bound_the_makespan(seed):
    rng = np.random.default_rng(seed)
    M, N = 3, int(rng.integers(1, 6))
    backlog = rng.uniform(0, 1, M) if rng.random() < 0.5 else None
    zeta = np.r_[1.0, rng.uniform(0.5, 1.0, N)] if rng.random() < 0.3 else None
    T = rng.lognormal(0, 0.5, (M, N))
    problem = MatchingProblem(
        T,
        np.ones((M, N)),
        0.0,
        allowed=rng.random((M, N)) < 0.8 + (np.arange(M) == 0)[:, None],
        backlog=backlog,
        zeta=zeta,
    )
    every = np.stack(np.unravel_index(np.arange(M**N), (M,) * N), axis=1)
    ends = objective_value(problem.take(None).take(np.zeros(len(every), int)), every)
    ends = ends[problem.allowed[every, np.arange(N)].all(axis=1)]
    bound = apart_bound(problem, 0.0)
    assert bound <= ends.min() * (1 + 1e-12)
    if zeta is None:
        assert bound >= least_end(problem) * (1 - 1e-12) or N == 1

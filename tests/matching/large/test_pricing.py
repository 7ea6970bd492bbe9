"""Prices: the bound is below every plan and meets the linear relaxation, on whatever a platform adds."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.large.rounds import unrelated
from matching.platforms import best_by_hand, built, platforms

from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.problem import Capacity, MatchingProblem, makespan


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=200)
def test_no_plan_is_below_the_bound(given, penalty):
    problem, expected = built(given), best_by_hand(given, penalty)
    assume(problem is not None)
    found = price(problem, time_limit=10.0, penalty=None if penalty is None else penalty / problem.tasks)
    assert found.bound <= expected * (1 + 1e-9)
    assume(np.isfinite(found.bound))
    candidates = found.candidates
    missing = candidates.cluster < 0
    np.testing.assert_allclose(candidates.share.sum(axis=1), 1.0)
    assert not candidates.share[missing].any()
    tasks = np.arange(problem.tasks)[:, None]
    assert problem.allowed[np.maximum(candidates.cluster, 0), tasks][~missing].all()


def test_the_task_that_takes_longest_is_a_bound():
    problem = unrelated(4, 30, 3)
    long_task = MatchingProblem(np.where(np.arange(30) == 7, 1e4, problem.T), problem.A, 0.8)
    assert price(long_task, time_limit=10.0).bound == pytest.approx(1e4)


def test_a_long_task_and_backlog_raise_the_bound_above_the_relaxation():
    """Two clusters of equal speed: relaxed, the long task would be split over both, and backlog be worked around."""
    T, A = np.full((2, 21), 1.0), np.ones((2, 21))
    T[:, 0] = 30.0  # then 25 on average
    assert price(MatchingProblem(T, A, 0.0), time_limit=10.0).bound == pytest.approx(30.0)
    waits = MatchingProblem(T[:, 1:], A[:, 1:], 0.0, backlog=[0.0, 100.0])
    found = price(waits, time_limit=10.0)  # all on the first, for the second's backlog counts if it gets a task
    assert 19.9 <= found.bound <= 20.0


def test_unreachable_reliability_and_capacities_are_proven():
    beyond = unrelated(3, 40, 6, gamma=0.999)
    assert price(beyond, time_limit=10.0).bound == np.inf
    full = unrelated(3, 40, 6, gamma=0.5, capacities=[Capacity("tasks", 1, np.array([13, 13, 13]))])
    assert price(full, time_limit=10.0).bound == np.inf


@given(st.integers(0, 2**32 - 1), st.floats(1e-5, 1e5))
@settings(max_examples=15)
def test_order_of_clusters_and_unit_of_time_do_not_matter(seed, unit):
    problem = unrelated(6, 60, seed)
    order = np.random.default_rng(seed).permutation(6)

    def bound(T, A, fixing):
        return price(MatchingProblem(T, A, 0.9), time_limit=10.0, tolerance=1e-5, fixing=fixing).bound

    relaxation, branched = (bound(problem.T, problem.A, fixing) for fixing in (False, True))
    assert bound(unit * problem.T[order], problem.A[order], False) == pytest.approx(unit * relaxation, rel=2e-5)
    assert bound(unit * problem.T, problem.A, True) == pytest.approx(unit * branched, rel=1e-6)
    other = bound(problem.T[order], problem.A[order], True)  # of as many branches, but not quite the same ones
    assert other == pytest.approx(branched, rel=5e-3)
    assert min(other, branched) >= relaxation * (1 - 2e-5)


def test_a_rounded_plan_that_needs_no_move_is_one():
    rng = np.random.default_rng([0, 20, 1000, 4])
    T = np.tile(1.0 / rng.lognormal(0, 0.4, (20, 1)), 1000)
    A = np.tile(0.995 - 0.3 * rng.random((20, 1)), 1000)
    fast, best = A[T[:, 0].argmin(), 0], A[:, 0].max()
    problem = MatchingProblem(T, A, 0.5 * (fast + best))
    found = price(problem, time_limit=10.0)
    plan = search(problem, found, time_limit=10.0)
    assert plan.min() >= 0
    assert makespan(plan, T) <= 1.001 * found.bound

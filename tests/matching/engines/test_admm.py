"""The ADMM core against projections done otherwise, its matching against HiGHS and against every plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.decomposition.fractions import drawn

from mfcp.errors import SettingsError
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=5)
def test_order_of_clusters_and_unit_of_time_do_not_matter(seed):
    problem, rng = drawn(4, 30, seed), np.random.default_rng(seed)
    order = rng.permutation(4)
    one = solve(problem, "admm")
    other = solve(MatchingProblem(3600 * problem.T[order], problem.A[order], problem.gamma), "admm")
    assert other.lower_bound == pytest.approx(3600 * one.lower_bound, rel=1e-6)
    assert other.makespan == pytest.approx(3600 * one.makespan, rel=1e-6)


def test_platform_rows_price_what_they_bind():
    """Memory for one task on the fast cluster: the bound knows that the other must go elsewhere."""
    T, memory = np.array([[1.0, 1.0], [5.0, 5.0]]), Capacity("memory", 1.0, [1.0, np.inf])
    free = solve(MatchingProblem(T, np.ones((2, 2)), 0.0), "admm")
    held = solve(MatchingProblem(T, np.ones((2, 2)), 0.0, capacities=[memory]), "admm")
    assert free.makespan == 2.0
    assert held.makespan == 5.0
    assert held.lower_bound == pytest.approx(5.0, rel=1e-3)


def test_backlog_counts_in_the_bound_up_to_the_bound():
    rng = np.random.default_rng(0)
    problem = MatchingProblem(rng.lognormal(size=(3, 60)), np.ones((3, 60)), 0.0, backlog=[10.0, 12.0, 500.0])
    solution = solve(problem, "admm")
    assert not (solution.assignment == 2).any()
    assert solution.gap < 0.05


def test_what_cannot_be_is_said():
    problem = drawn(3, 5, 0)
    assert solve(problem.at(1.0), "admm").status == "infeasible"
    with pytest.raises(SettingsError, match="same clusters and tasks"):
        solve(drawn(3, 6, 0), "admm", start=solve(problem, "admm").state)
    with pytest.raises(SettingsError, match="cannot take a price"):
        solve(problem, "admm", price=1.0)

"""Branches on long tasks: their bound is below every plan and above the relaxation's, and ends at the optimum."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.large.rounds import heavy, unrelated
from matching.platforms import best_by_hand, built, platforms

from mfcp.matching import clock, solve
from mfcp.matching.large import branch_and_bound, pricing
from mfcp.matching.large.branch_and_bound import branch, masked
from mfcp.matching.large.column_generation import generate
from mfcp.matching.large.linear_relaxation import guess, relax
from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.large.shards import Threads, whole_plan
from mfcp.matching.problem import MatchingProblem, makespan


def raised(problem, value, most, whole=0.03):
    """The bound of so many branches, from the relaxation's, and the open branches."""
    data = relax(problem, np.ones(problem.clusters), None, value)
    shards, options = Threads(data, 10), {"width": 10, "tolerance": 1e-6, "deadline": clock.seconds() + 60}
    found = generate(data, shards, guess(data), off=1.0, floor=0.0, **options)
    if found.bound >= value:
        return value, []
    return branch(
        data, found.best, *whole_plan(shards), bound=found.bound, value=value, most=most, whole=whole, **options
    )


@given(platforms(), st.floats(0.9, 1.5), st.sampled_from([0, 4, 200]))
@settings(max_examples=150)
def test_no_plan_is_below_the_bound(given, factor, most):
    problem, optimum = built(given), best_by_hand(given, None)
    assume(problem is not None and problem.zeta is None and problem.objective.makespan and np.isfinite(optimum))
    value = factor * optimum
    bound, _ = raised(problem, value, most)
    assert bound <= min(value, optimum) * (1 + 1e-9)
    assert bound <= value


@pytest.mark.parametrize("seed", range(8))
def test_where_every_task_is_long_branches_end_at_the_optimum(seed):
    problem = unrelated(4, 10, seed, sigma=0.7, gamma=0.85)
    optimum = float(solve(problem, "exact").objective)
    value = 1.01 * optimum
    relaxation, _ = raised(problem, value, 0, 1e-4)
    bound, open_ = raised(problem, value, 10_000, 1e-4)
    assert relaxation <= bound
    assert bound == pytest.approx(optimum, rel=1e-4)
    assert open_[0].long_task < 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_branch_stays_open_below_a_value_that_no_plan_is_below(seed):
    problem = unrelated(4, 10, seed, sigma=0.7, gamma=0.85)
    value = 0.98 * float(solve(problem, "exact").objective)
    assert raised(problem, value, 0, 1e-4)[0] < value  # the relaxation alone does not show it
    assert raised(problem, value, 10_000, 1e-4) == (value, [])


def test_the_bound_grows_with_the_branches():
    problem = heavy(20, 400, 1.5, 9)
    value = 1.05 * float(solve(problem, "dual").lower_bound)
    bounds = [raised(problem, value, most)[0] for most in (0, 4, 16, 64)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > 1.005 * bounds[0]


def test_tasks_without_room_beside_a_long_one_are_left_out():
    T = np.array([[6.0, 5.0, 3.0, 6.0], [6.0, 5.0, 3.0, 6.0]])
    data = relax(MatchingProblem(T, np.ones_like(T), 0.0), np.ones(2), None, 10.0)
    inf = np.inf
    alone = masked(data, {0: np.array([0])})
    np.testing.assert_array_equal(alone, [[6, inf, 3, inf], [inf, 5, 3, 6]])
    np.testing.assert_array_equal(masked(data, {0: np.array([0]), 3: np.array([0])})[:, [0, 3]], np.full((2, 2), inf))
    np.testing.assert_array_equal(masked(data, {0: np.array([0, 1])}), T)


@pytest.mark.parametrize("seed", [0, 4])
def test_plans_of_rounds_that_split_long_tasks_are_near_their_bound(seed, monkeypatch):
    """Of the gap of 0.17-0.21 % without, half goes: the relaxation's bound is below what any plan can have."""
    problem = heavy(50, 5000, 1.5, seed)
    solution = solve(problem, "dual")
    monkeypatch.setattr(pricing, "_BRANCHING", 0)
    without = solve(problem, "dual")
    assert solution.lower_bound > 1.0001 * without.lower_bound
    assert solution.objective <= 1.0002 * without.objective
    assert solution.gap < 0.0013 < without.gap


def test_searches_of_small_rounds_start_from_several_branches():
    problem = heavy(10, 100, 1.5, 4)
    relaxation, found = (price(problem, time_limit=60.0, fixing=fixing) for fixing in (False, True))
    assert not relaxation.others
    assert len(found.others) == 2
    assert found.bound > 1.002 * relaxation.bound
    assert {other.bound for other in found.others} == {found.bound}
    prices = [each.around.seconds for each in (found, *found.others)]
    assert not np.allclose(prices[0], prices[1], rtol=1e-3)
    alone, several = (makespan(search(problem, each, time_limit=60.0), problem.T) for each in (relaxation, found))
    assert found.bound <= several < 0.9995 * alone


def test_cores_do_not_change_a_bit(monkeypatch):
    problem = heavy(20, 400, 1.5, 5)
    value = 1.05 * float(solve(problem, "dual").lower_bound)
    many, several = raised(problem, value, 20)
    monkeypatch.setattr(branch_and_bound.os, "sched_getaffinity", lambda _: {0})
    one, alike = raised(problem, value, 20)
    assert one == many
    assert [branch.number for branch in several] == [branch.number for branch in alike]
    assert (several[0].vector == alike[0].vector).all()

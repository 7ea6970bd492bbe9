"""Enumeration, HiGHS and a naive loop must agree; bounds and statuses must be true."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.matching.exact import all_plans
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import MatchingProblem, makespan, reliability
from mfcp.matching.regret import penalised_cost, regret


@st.composite
def problems(draw, most_clusters=3, most_tasks=5):
    clusters, tasks = draw(st.integers(1, most_clusters)), draw(st.integers(1, most_tasks))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    T = rng.lognormal(0, draw(st.sampled_from([0.0, 0.5, 2.0])), (clusters, tasks))
    A = rng.uniform(0.5, 1.0, (clusters, tasks))
    allowed = rng.random((clusters, tasks)) < 0.8
    allowed[rng.integers(clusters), :] = True
    return MatchingProblem(T, A, draw(st.sampled_from([0.0, 0.7, 0.8, 0.95])), allowed)


def best_by_hand(problem, price=None):
    """The least cost over every plan, in plain Python."""
    best = np.inf
    M, N = problem.T.shape
    for plan in itertools.product(range(M), repeat=N):
        load = [sum(problem.T[i, j] for j in range(N) if plan[j] == i) for i in range(M)]
        mean = sum(problem.A[plan[j], j] for j in range(N)) / N
        if price is None and mean < problem.gamma - 1e-9:
            continue
        best = min(best, max(load) + (price or 0.0) * max(0.0, problem.gamma - mean))
    return best


@given(problems())
@settings(max_examples=150, deadline=None)
def test_enumeration_is_the_minimum_over_all_plans(problem):
    solution = solve(problem, "enumerate")
    expected = best_by_hand(problem)
    assert solution.makespan == pytest.approx(expected) if np.isfinite(expected) else solution.status == "infeasible"
    if solution.status == "optimal":
        assert makespan(solution.assignment, problem.T) == pytest.approx(solution.makespan)
        assert reliability(solution.assignment, problem.A) >= problem.gamma - 1e-9


@given(problems(), st.sampled_from([None, 0.5, 30.0]))
@settings(max_examples=40, deadline=None)
def test_highs_agrees_with_enumeration(problem, price):
    one, other = solve(problem, "milp", price=price), solve(problem, "enumerate", price=price)
    assert one.status == other.status
    if one.status == "optimal":
        assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-6)
        assert one.lower_bound <= best_by_hand(problem, price) * (1 + 1e-6)


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_order_of_clusters_and_unit_of_time_change_nothing_else(problem, random):
    order = random.sample(range(problem.clusters), problem.clusters)
    permuted = MatchingProblem(
        np.where(problem.allowed, problem.T, 1.0)[order] * 60.0, problem.A[order], problem.gamma, problem.allowed[order]
    )
    one, other = solve(problem), solve(permuted)
    assert one.status == other.status
    if one.status == "optimal":
        assert other.makespan == pytest.approx(60 * one.makespan)


def test_a_batch_is_its_rounds():
    rng = np.random.default_rng(0)
    T, A, gamma = rng.lognormal(size=(4, 2, 3, 5)), rng.uniform(0.6, 1, (4, 2, 3, 5)), rng.uniform(0.7, 0.9, (4, 2))
    batch = solve(MatchingProblem(T, A, gamma))
    assert batch.assignment.shape == (4, 2, 5)
    for where in np.ndindex(4, 2):
        assert batch.makespan[where] == solve(MatchingProblem(T[where], A[where], gamma[where])).makespan


def test_parallel_execution_is_part_of_the_optimum():
    T = np.array([[1.0, 1.0], [1.9, 1.9]])
    A = np.ones((2, 2))
    assert solve(MatchingProblem(T, A, 0.0)).makespan == 1.9
    together = solve(MatchingProblem(T, A, 0.0, zeta=[1.0, 1.0, 0.6]))
    assert together.makespan == pytest.approx(1.2)
    with pytest.raises(SettingsError, match="cannot take parallel execution"):
        solve(MatchingProblem(T, A, 0.0, zeta=[1.0, 1.0, 0.6]), "milp")


def test_milp_takes_over_where_plans_are_too_many():
    rng = np.random.default_rng(1)
    problem = MatchingProblem(rng.lognormal(size=(3, 12)), rng.uniform(0.7, 1, (3, 12)), 0.8)
    solution = solve(problem)
    assert solution.engine == "milp"
    assert solution.status == "optimal"
    assert solution.makespan == pytest.approx(float(solution.lower_bound), rel=1e-6)
    with pytest.raises(SettingsError, match="too many"):
        all_plans(3, 12)


def test_unreachable_rounds_fall_back_to_the_least_charged_plan():
    rng = np.random.default_rng(2)
    T, A = rng.lognormal(size=(30, 3, 4)), rng.uniform(0.5, 0.9, (30, 3, 4))
    problem = MatchingProblem(T, A, 0.8)
    solution = solve_or_fall_back(problem)
    unreachable = problem.reachable_gamma() < 0.8
    assert unreachable.any()
    assert not unreachable.all()
    np.testing.assert_array_equal(solution.status == "fallback", unreachable)
    for b in np.flatnonzero(unreachable):
        fastest = best_by_hand(MatchingProblem(T[b], A[b], 0.0))
        one = MatchingProblem(T[b], A[b], 0.8)
        short = max(0.0, 0.8 - reliability(solution.assignment[b], A[b]))
        assert solution.makespan[b] + 20 * fastest * short == pytest.approx(best_by_hand(one, 20 * fastest))


def test_unknown_engine_is_named():
    with pytest.raises(SettingsError, match="unknown engine kind 'magic'"):
        solve(MatchingProblem([[1.0]], [[1.0]], 0.0), "magic")


@given(problems())
@settings(max_examples=50, deadline=None)
def test_regret_is_zero_at_the_truth_and_positive_for_any_feasible_plan(problem):
    optimal = solve(problem)
    if optimal.status != "optimal":
        return
    assert regret(optimal.assignment, optimal.assignment, problem.T) == 0.0
    for plan in all_plans(problem.clusters, problem.tasks)[0]:
        feasible = reliability(plan, problem.A) >= problem.gamma and np.isfinite(makespan(plan, problem.T))
        assert not feasible or regret(plan, optimal.assignment, problem.T) >= 0.0


def test_penalised_cost_by_hand():
    problem = MatchingProblem([[2.0, 3.0], [4.0, 1.0]], [[0.9, 0.5], [0.6, 0.7]], 0.85)
    plan = np.array([0, 1])
    assert penalised_cost(plan, problem, price=4.0, unit=np.array(2.0)) == pytest.approx(1.0 + 4.0 * 0.05)

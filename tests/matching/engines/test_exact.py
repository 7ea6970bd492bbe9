"""Enumeration, HiGHS and a naive loop must agree; bounds and statuses must be true."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.agreement import agrees
from matching.platforms import best_by_hand, built, platforms

from mfcp.errors import SettingsError
from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import Capacity, MatchingProblem, reliability


@given(platforms(most_tasks=4), st.randoms(use_true_random=False), st.sampled_from([1e-3, 60.0]))
@settings(max_examples=60)
def test_order_of_clusters_and_tasks_and_the_units_change_nothing_else(given, random, unit):
    M, N = given["T"].shape
    rows, columns = random.sample(range(M), M), random.sample(range(N), N)
    both = np.ix_(rows, columns)
    changed = {key: given[key][both] for key in ("A", "allowed")} | {"T": given["T"][both] * unit}
    changed |= {"gamma": given["gamma"]}
    if "backlog" in given:
        changed["backlog"] = given["backlog"][rows] * unit
    if "deadline" in given:
        changed["deadline"] = given["deadline"][columns] * unit
    if "cost" in given:
        changed |= {"cost": given["cost"][both] * unit, "objective": given["objective"]}
    if "zeta" in given:
        changed["zeta"] = given["zeta"]
    if "capacities" in given:
        use = [np.broadcast_to(c.use, (M, N))[both] * 7 for c in given["capacities"]]
        limit = [np.broadcast_to(c.limit, M)[rows] * 7 for c in given["capacities"]]
        changed["capacities"] = [
            Capacity(c.name, u, x) for c, u, x in zip(given["capacities"], use, limit, strict=True)
        ]
    for engine in ("enumerate",) if "zeta" in given else ("enumerate", "milp"):
        one, other = (None if p is None else solve(p, engine) for p in (built(given), built(changed)))
        if one is None or other is None:
            assert one is other
            continue
        assert one.status == other.status
        if one.status == "optimal":
            assert other.objective == pytest.approx(unit * one.objective, rel=2e-6)


def test_single_precision_and_one_cluster():
    rng = np.random.default_rng(5)
    T, A = rng.lognormal(size=(3, 5)).astype(np.float32), rng.uniform(0.6, 1, (3, 5)).astype(np.float32)
    agrees(MatchingProblem(T, A, 0.8, backlog=[0.1, 0.2, 0.3]), None)
    single = solve(MatchingProblem(np.full((1, 100), 0.1, np.float32), np.ones((1, 100), np.float32), 1.0))
    assert single.status == "optimal"
    assert single.makespan == pytest.approx(100 * float(np.float32(0.1)), rel=1e-12)  # summed in double precision


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
    everywhere = np.ones((3, 4), bool)
    for b in np.flatnonzero(unreachable):
        given = {"T": T[b], "A": A[b], "gamma": 0.8, "allowed": everywhere}
        fastest = best_by_hand(given | {"gamma": 0.0})
        short = max(0.0, 0.8 - reliability(solution.assignment[b], A[b]))
        expected = best_by_hand(given, 20 * fastest)
        assert solution.makespan[b] + 20 * fastest * short == pytest.approx(expected)
        assert solution.objective[b] == pytest.approx(expected)
        assert solution.lower_bound[b] == pytest.approx(expected)


def test_rounds_that_no_gamma_helps_stay_infeasible():
    problem = MatchingProblem(np.ones((2, 1, 2)), np.full((2, 1, 2), 0.5), [0.9, 0.2], capacities=[Capacity("n", 1, 1)])
    assert solve_or_fall_back(problem).status.tolist() == ["infeasible", "infeasible"]


def test_unknown_engine_is_named():
    with pytest.raises(SettingsError, match="unknown engine kind 'magic'"):
        solve(MatchingProblem([[1.0]], [[1.0]], 0.0), "magic")

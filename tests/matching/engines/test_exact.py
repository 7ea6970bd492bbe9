"""Enumeration, HiGHS and a naive loop must agree; bounds and statuses must be true."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, holds, platforms, told

from mfcp.errors import SettingsError, SolverError
from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import Capacity, MatchingProblem, makespan, reliability
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


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=500, deadline=None)
def test_enumeration_is_the_least_objective_of_all_plans_that_hold(given, price):
    problem, expected = built(given), best_by_hand(given, price)
    if problem is None:
        assert expected == np.inf
        return
    solution = solve(problem, "enumerate", price=price)
    assert solution.status == ("optimal" if np.isfinite(expected) else "infeasible")
    if np.isfinite(expected):
        value, excess = told(given, solution.assignment)
        assert holds(excess, given, but=() if price is None else ("reliability",))
        assert solution.objective == pytest.approx(expected)
        assert value + (price or 0) * excess["reliability"] == pytest.approx(expected)
        assert solution.lower_bound == pytest.approx(expected)


def agrees(problem, price):
    """HiGHS proves what enumeration finds, never raises, and its bound is a bound."""
    one, other = solve(problem, "milp", price=price), solve(problem, "enumerate", price=price)
    assert one.status == other.status
    if one.status == "optimal":
        assert one.objective == pytest.approx(other.objective, rel=2e-6)
        assert one.lower_bound <= other.objective * (1 + 1e-12)
        assert one.lower_bound >= other.objective * (1 - 2e-6)


@given(platforms(parallel=False), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=120, deadline=None)
def test_highs_agrees_with_enumeration(given, price):
    problem = built(given)
    if problem is not None:
        agrees(problem, price)


@pytest.mark.slow
@given(platforms(most_clusters=4, most_tasks=6, parallel=False), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=600, deadline=None)
def test_highs_agrees_with_enumeration_on_many_more(given, price):
    problem = built(given)
    if problem is not None:
        agrees(problem, price)


@pytest.mark.parametrize("near", [1e-6, 1e-7, 1e-8, 2e-9, 0.9e-9, -1e-8])
def test_highs_tolerance_lets_no_plan_through(near):
    """Limits that the fastest plan misses by less than HiGHS's 1e-6: the next plan, or none, as enumeration says."""
    T = np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    A = np.array([[0.8, 0.8, 0.8], [0.9, 0.9, 0.9]])
    agrees(MatchingProblem(T, A, 0.8 + near), None)
    agrees(MatchingProblem(T, A, 0.9 + near), None)
    for limit in (2.0 - near, 3.0 - near):
        agrees(MatchingProblem(T, A, 0.0, capacities=[Capacity("use", 1.0, [limit, np.inf])]), None)
        agrees(MatchingProblem(T, A, 0.0, capacities=[Capacity("use", 1.0, limit / 2)]), None)
        agrees(MatchingProblem(T, A, 0.0, deadline=np.array([np.inf, limit, limit])), None)


def test_a_round_of_eight_orders_of_magnitude():
    rng = np.random.default_rng(3)
    T = 10.0 ** rng.uniform(-4, 4, (4, 6))
    agrees(MatchingProblem(T, rng.uniform(0.6, 1, (4, 6)), 0.8), None)
    agrees(MatchingProblem(T, rng.uniform(0.6, 1, (4, 6)), 0.8, backlog=10.0 ** rng.uniform(-4, 4, 4)), None)


@given(platforms(most_tasks=4), st.randoms(use_true_random=False), st.sampled_from([1e-3, 60.0]))
@settings(max_examples=60, deadline=None)
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


def test_where_highs_breaks_it_is_asked_again_without_presolve(monkeypatch):
    """As in `vector::reserve`, which it raised out of a sub-MILP."""
    rng = np.random.default_rng(4)
    problem = MatchingProblem(rng.lognormal(size=(3, 9)), rng.uniform(0.7, 1.0, (3, 9)), 0.85)
    expected = solve(problem, "milp")
    real = scipy.optimize.milp

    def breaks(*given, options, **more):
        if options["presolve"] or always:
            raise ValueError("vector::reserve")
        return real(*given, options=options, **more)

    monkeypatch.setattr(scipy.optimize, "milp", breaks)
    always = False
    again = solve(problem, "milp")
    assert again.status == expected.status == "optimal"
    assert again.objective == pytest.approx(float(expected.objective))
    always = True
    with pytest.raises(SolverError, match=r"HiGHS broke on a \(3, 9\) round: vector::reserve"):
        solve(problem, "milp")


def test_unknown_engine_is_named():
    with pytest.raises(SettingsError, match="unknown engine kind 'magic'"):
        solve(MatchingProblem([[1.0]], [[1.0]], 0.0), "magic")


@given(problems())
@settings(max_examples=50, deadline=None)
def test_regret_is_zero_at_the_truth_and_positive_for_any_feasible_plan(problem):
    optimal = solve(problem)
    assume(optimal.status == "optimal")
    assert regret(optimal.assignment, optimal.assignment, problem.T) == 0.0
    for plan in all_plans(problem.clusters, problem.tasks)[0]:
        feasible = reliability(plan, problem.A) >= problem.gamma and np.isfinite(makespan(plan, problem.T))
        assert not feasible or regret(plan, optimal.assignment, problem.T) >= 0.0


def test_penalised_cost_by_hand():
    problem = MatchingProblem([[2.0, 3.0], [4.0, 1.0]], [[0.9, 0.5], [0.6, 0.7]], 0.85)
    plan = np.array([0, 1])
    assert penalised_cost(plan, problem, price=4.0, unit=np.array(2.0)) == pytest.approx(1.0 + 4.0 * 0.05)

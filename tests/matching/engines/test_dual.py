"""The engine of large rounds: its plan, its bound and its state."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.large.rounds import heavy
from matching.platforms import best_by_hand, built, platforms

from mfcp.errors import SettingsError
from mfcp.matching.bounds import span_bound
from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem, makespan


def test_dual_refuses_the_state_of_another_round():
    rng = np.random.default_rng(0)
    rounds = [MatchingProblem(rng.uniform(1, 2, (M, 60)), np.full((M, 60), 0.9), 0.5) for M in (4, 5)]
    state = solve(rounds[0], "dual", time_limit=0.5).state
    for start, seen in ((state, r"prices of \(rows, clusters\) \(0, 4\)"), ([3], "int")):
        with pytest.raises(SettingsError, match=rf"clusters, \(0, 5\), not from {seen}; leave start out"):
            solve(rounds[1], "dual", start=start, time_limit=0.5)


def test_at_the_time_limit_the_plan_holds_and_the_bound_is_a_bound():
    rng = np.random.default_rng(0)
    T, A = rng.lognormal(size=(6, 60)), rng.uniform(0.6, 1.0, (6, 60))
    solution = solve(MatchingProblem(T, A, 0.9), "milp", time_limit=0.2)
    assert solution.status in ("feasible", "optimal")
    assert float(span_bound(MatchingProblem(T, A, 0.9))) <= solution.lower_bound <= solution.objective


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=60)
def test_dual_has_a_plan_where_there_is_one_and_its_bound_is_one(given, price):
    problem, best = built(given), best_by_hand(given, price)
    assume(problem is not None)
    solution = solve(problem, "dual", price=price, time_limit=0.1)
    assert solution.lower_bound <= best * (1 + 1e-9)
    assert solution.objective >= best * (1 - 1e-9)
    if solution.status == "infeasible":
        assert best == np.inf
    if np.isfinite(best) and problem.zeta is None:  # with zeta nobody is left to ask when the search has none
        assert solution.status in ("optimal", "feasible")


def test_long_tasks_that_are_fixed_leave_a_better_plan_than_those_left_to_the_search():
    problem = heavy(60, 2400, 1.5, 1)
    found = price(problem, time_limit=60.0, fixing=False)
    left = makespan(search(problem, found, time_limit=60.0), problem.T) / found.bound - 1
    assert solve(problem, "dual").gap <= 0.5 * left


def test_one_cluster_of_few_tasks_does_not_hold_up_the_others():
    rng = np.random.default_rng([104, 456, 16520, 2])
    sizes, speeds = rng.lognormal(0, 1.0, 16520), rng.lognormal(0, 0.4, 456)
    T = np.exp(0.3 * rng.standard_normal((456, 16520), dtype=np.float32)) * sizes / speeds[:, None]
    A = 0.995 - 0.25 * rng.random((456, 16520)) - 0.1 * rng.random(456)[:, None]
    fast, best = A[T.argmin(axis=0), np.arange(16520)].mean(), A.max(axis=0).mean()
    assert solve(MatchingProblem(T, A, fast + 0.6 * (best - fast)), "dual").gap <= 0.006


def test_a_round_that_capacities_rule_out_does_not_stop_its_neighbours():
    T = np.tile(np.array([[1.0], [2.0]]), (2, 1, 30))
    capacity = Capacity("tasks", use=1.0, limit=np.array([[20.0], [10.0]]))
    solution = solve(MatchingProblem(T, np.ones((2, 2, 30)), 0.5, capacities=[capacity]), "dual")
    assert solution.makespan[0] == 20.0
    assert str(solution.status[1]) == "infeasible"

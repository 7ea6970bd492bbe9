"""Regret and penalised cost of a plan."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.planning import solve
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


@given(problems())
@settings(max_examples=50)
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
    busy = MatchingProblem(problem.T, problem.A, 0.85, backlog=[1.0, 7.0])
    assert penalised_cost(np.array([0, 0]), busy, price=4.0, unit=np.array(2.0)) == pytest.approx(3.0 + 4.0 * 0.15)

"""POP's parts and their merging."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.matching.engines.pop import Pop
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem, reliability


def drawn(M, N, seed, **extra):
    rng = np.random.default_rng(seed)
    return MatchingProblem(rng.lognormal(size=(M, N)), rng.uniform(0.7, 1.0, (M, N)), 0.82, **extra)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
@settings(max_examples=20)
def test_merged_parts_are_a_plan_between_optimum_and_nothing(seed, parts):
    problem = drawn(2, 7, seed)
    solution, optimum = solve(problem, Pop(parts=parts, seed=1)), solve(problem, "exact")
    assert solution.lower_bound <= optimum.objective * (1 + 1e-9)
    if solution.status not in ("failed", "infeasible"):
        assert solution.makespan >= optimum.makespan * (1 - 1e-9)
        assert reliability(solution.assignment, problem.A) >= 0.82 - 1e-9


def test_one_part_is_the_whole():
    problem = drawn(3, 6, 0)
    assert solve(problem, Pop(parts=1, engine="exact")).makespan == solve(problem, "exact").makespan


def test_more_parts_lose_more():
    problems = [drawn(3, 12, seed).at(0.0) for seed in range(4)]
    mean = {k: np.mean([solve(p, Pop(parts=k, engine="exact")).makespan for p in problems]) for k in (1, 4)}
    assert mean[4] > mean[1]


def test_parts_get_their_share_of_the_capacities():
    capacity = Capacity("tasks", 1.0, [4.0, 8.0])
    problem = drawn(2, 12, 3, capacities=[capacity]).at(0.0)
    solution = solve(problem, Pop(parts=2, engine="admm"))
    assert np.bincount(solution.assignment).tolist() == [4, 8]
    tight = drawn(2, 12, 3, capacities=[Capacity("tasks", 1.0, [2.0, 10.0])]).at(0.0)
    assert solve(tight, Pop(parts=4, engine="admm")).status == "failed"  # at most 0 and 2 of a part's 3 tasks fit


def test_a_part_without_its_deadline_leaves_no_plan():
    problem = MatchingProblem([[1.0, 1.0], [1.0, 1.0]], np.ones((2, 2)), 0.0, deadline=[1.5, 1.5])
    assert solve(problem, Pop(parts=2, engine="admm")).status == "failed"
    assert solve(problem, Pop(parts=1, engine="admm")).status == "optimal"


def test_unreachable_gamma_is_proven():
    assert solve(drawn(2, 6, 0).at(1.0), "pop").status == "infeasible"


def test_parts_are_solved_by_what_is_asked_for():
    with pytest.raises(SettingsError, match="unknown engine kind 'magic'"):
        solve(drawn(2, 6, 0), Pop(engine="magic"))

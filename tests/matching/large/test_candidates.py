"""Candidates and rows: entries of the problem itself, and constraints that leave nothing out."""

import numpy as np
import pytest
from hypothesis import assume, given
from matching.platforms import built, platforms

from mfcp.matching.large.candidates import gather, rows_of
from mfcp.matching.problem import Capacity, MatchingProblem, Objective, violations


def test_entries_are_those_of_the_problem_and_empty_where_a_candidate_is_missing():
    rng = np.random.default_rng(0)
    T, A, cost = rng.lognormal(size=(3, 4)), rng.uniform(0.7, 1, (3, 4)), rng.uniform(size=(3, 4))
    capacity = Capacity("memory", rng.uniform(size=(3, 4)), np.ones(3))
    problem = MatchingProblem(T, A, 0.5, capacities=[capacity], cost=cost, objective=Objective(1.0, 0.5, 2.0))
    cluster = np.array([[2, 0], [1, -1], [0, 1], [2, 1]], np.int32)
    found = gather(problem, rows_of(problem), cluster)
    assert found.time[0, 1] == T[0, 0]
    assert found.reliability[3, 0] == A[2, 3]
    assert found.linear[2, 1] == pytest.approx(0.5 * T[1, 2] + 2.0 * cost[1, 2])
    assert found.use[0, 0, 0] == capacity.use[2, 0]
    assert (found.time[1, 1], found.reliability[1, 1], found.use[0, 1, 1]) == (np.inf, 0.0, 0.0)
    np.testing.assert_array_equal(found.share, [[1, 0]] * 4)


@given(platforms(most_tasks=4))
def test_a_plan_that_holds_keeps_every_row(given):
    problem = built(given)
    assume(problem is not None and (problem.capacities or problem.deadline is not None) and problem.zeta is None)
    M, N = problem.clusters, problem.tasks
    rng = np.random.default_rng(0)
    for plan in rng.integers(0, M, (20, N)):
        broken = violations(problem, plan)
        if any((excess > 0).any() for name, excess in broken.items() if name != "reliability"):
            continue
        for row in rows_of(problem):
            use = (problem.T if row.use is None else row.use)[plan, np.arange(N)]
            used = np.bincount(plan, np.where(True if row.active is None else row.active, use, 0.0), minlength=M)
            assert (used <= row.limit * (1 + 1e-9) + 1e-9).all(), row.name


def test_many_deadlines_become_few_rows_that_are_never_tighter():
    T = np.full((2, 40), 0.1)
    problem = MatchingProblem(T, np.ones((2, 40)), 0.0, deadline=np.linspace(1, 5, 40))
    rows = rows_of(problem, levels=4)
    assert len(rows) == 4
    for row in rows:
        assert (problem.deadline[row.active] <= row.limit.max() + 1e-12).all()
    assert rows[-1].active.all()

"""Rounding a fractional plan."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.decomposition.fractions import platforms

from mfcp.matching.engines.admm import Admm
from mfcp.matching.large.candidates import rows_of
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem, objective_value, violations

seeds = st.integers(0, 2**32 - 1)


@given(platforms())
@settings(max_examples=40)
def test_bound_optimum_and_plan_come_in_this_order(problem):
    values = [
        float(objective_value(problem, np.array(plan)))
        for plan in itertools.product(range(problem.clusters), repeat=problem.tasks)
        if not any(excess > 0 for excess in violations(problem, np.array(plan)).values())
    ]
    optimum = min(values, default=np.inf)
    solution = solve(problem, Admm(iterations=150))
    assert solution.lower_bound <= optimum * (1 + 1e-9)
    assert optimum <= solution.objective * (1 + 1e-9)
    assert solution.status != "infeasible" or not values


def test_rows_beyond_the_local_search_are_never_broken():
    """Many deadlines and a capacity that binds: a plan that is returned keeps all of them."""
    rng = np.random.default_rng(5)
    T = rng.lognormal(0, 0.5, (3, 40))
    problem = MatchingProblem(
        T,
        rng.uniform(0.8, 1, (3, 40)),
        0.88,
        deadline=5 + 30 * rng.random(40),
        capacities=[Capacity("tasks", 1.0, [12, 14, 18])],
    )
    assert len(rows_of(problem)) == 9
    solution = solve(problem, Admm(iterations=200))
    assert solution.status in ("feasible", "optimal")
    assert (np.bincount(solution.assignment, minlength=3) <= [12, 14, 18]).all()

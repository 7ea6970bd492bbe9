"""List scheduling: every plan holds, the bound is a bound, and the price of reliability buys what gamma asks."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, holds, platforms, told

from mfcp.matching.kernels.list_schedule import iterate
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem, Objective, makespan, reliability


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=250, deadline=None)
def test_plans_hold_and_bounds_are_bounds(given, price):
    problem = built(given)
    assume(problem is not None)
    solution, best = solve(problem, "greedy", price=price), best_by_hand(given, price)
    assert solution.lower_bound <= best * (1 + 1e-12)
    if np.isfinite(solution.objective):
        value, excess = told(given, solution.assignment)
        assert holds(excess, given, but=() if price is None else ("reliability",))
        assert solution.objective == pytest.approx(value + (price or 0.0) * excess["reliability"])
        assert solution.objective >= best * (1 - 1e-9)
    elif solution.status == "infeasible":
        assert best == np.inf
    else:
        assert solution.status == "failed"
        assert (solution.assignment == -1).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=100, deadline=None)
def test_whatever_gamma_is_reachable_is_reached(seed, share):
    rng = np.random.default_rng(seed)
    T, A = rng.lognormal(0, 1, (4, 12)), rng.uniform(0.5, 1.0, (4, 12))
    fast = A[T.argmin(0), np.arange(12)].mean()
    solution = solve(MatchingProblem(T, A, fast + share * (A.max(0).mean() - fast)), "greedy")
    assert solution.status in ("feasible", "optimal")


def test_what_may_run_nowhere_else_is_respected_at_size():
    rng = np.random.default_rng(1)
    M, N = 20, 500
    T, A = rng.lognormal(size=(M, N)).astype(np.float32), rng.uniform(0.8, 1, (M, N)).astype(np.float32)
    allowed = rng.random((M, N)) < 0.3
    allowed[rng.integers(M, size=N), np.arange(N)] = True
    problem = MatchingProblem(
        T, A, 0.93, allowed, backlog=rng.uniform(0, 5, M), deadline=np.where(rng.random(N) < 0.2, 20.0, np.inf),
        capacities=[Capacity("tasks", 1, 40), Capacity("memory", rng.uniform(0, 2, N), 40.0)],
        objective=Objective(1.0, 0.01, 0.01), cost=rng.uniform(0, 1, (M, N)),
    )  # fmt: skip
    solution = solve(problem, "greedy")  # which verifies it
    assert solution.status == "feasible"
    assert solution.lower_bound > 0


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=100, deadline=None)
def test_local_search_keeps_reliability_and_masks_and_is_never_slower(seed, share):
    rng = np.random.default_rng(seed)
    T, A = rng.lognormal(0, 0.7, (3, 7)), rng.uniform(0.5, 1.0, (3, 7))
    allowed = rng.random((3, 7)) < 0.8
    allowed[0] = True
    A[~allowed], T[~allowed] = 0.0, np.inf
    fast = A[T.argmin(0), np.arange(7)].mean()
    problem = MatchingProblem(T, A, fast + share * (A.max(0).mean() - fast), allowed)
    start = solve(problem, "greedy")
    plan = start.assignment.copy()
    iterate(T, A, 7 * float(problem.gamma) - 1e-9, plan, rng.random((500, 8)))
    assert reliability(plan, A) >= problem.gamma - 1e-9
    assert allowed[plan, np.arange(7)].all()
    best = float(solve(problem, "enumerate").makespan)
    assert best * (1 - 1e-12) <= makespan(plan, T) <= float(start.makespan) * (1 + 1e-12)


def test_local_search_mostly_finds_the_optimum_of_small_rounds():
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(20):
        problem = MatchingProblem(rng.lognormal(0, 0.7, (3, 8)), np.ones((3, 8)), 1.0)
        plan = solve(problem, "greedy").assignment.copy()
        iterate(problem.T, problem.A, 8 * (1 - 1e-9), plan, rng.random((2000, 8)))
        found += makespan(plan, problem.T) <= float(solve(problem, "enumerate").makespan) * (1 + 1e-9)
    assert found >= 19

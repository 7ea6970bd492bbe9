"""List scheduling: every plan holds, the bound is a bound, and the price of reliability buys what gamma asks."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, holds, platforms, told

from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem, Objective


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=250)
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
@settings(max_examples=100)
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

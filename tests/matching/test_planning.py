"""What `solve` promises whatever the engine: plans that hold, bounds that are bounds, statuses that are derived."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, platforms

from mfcp.errors import SettingsError, SolverError
from mfcp.matching.bounds import simple_bound, span_bound
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.engines.exact import Enumerate, Exact, Milp
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem

ROUND = MatchingProblem([[1.0, 2.0], [2.0, 1.0]], [[0.9, 0.9], [0.5, 0.5]], 0.9)


@pytest.fixture
def says():
    """An engine that returns what it is told to."""

    class Says(Engine):
        name: ClassVar[str] = "says"
        assignment: tuple[int, ...]
        bound: float

        def match(self, problem, **options):
            return Found(np.array([self.assignment]), np.array([self.bound]))

    yield Says
    del Engine.members["says"]


@pytest.mark.parametrize(
    ("assignment", "bound", "status", "lower"),
    [
        ((0, 0), 3.0, "optimal", 3.0),
        ((0, 0), 3.0 + 1e-9, "optimal", 3.0),  # never above the plan itself
        ((0, 0), 3.0 - 4e-6, "feasible", 3.0 - 4e-6),
        ((0, 0), -np.inf, "feasible", -np.inf),
        ((-1, -1), 2.0, "failed", 2.0),
        ((-1, -1), np.inf, "infeasible", np.inf),
    ],
)
def test_status_and_bound_are_derived(says, assignment, bound, status, lower):
    solution = solve(ROUND, says(assignment=assignment, bound=bound))
    assert solution.status == status
    assert solution.lower_bound == lower
    assert solution.makespan == (3.0 if assignment[0] == 0 else np.inf)


def test_a_plan_that_breaks_a_constraint_is_never_returned(says):
    with pytest.raises(SolverError, match=r"engine 'says' broke 'reliability' by 0\.2 in round 0"):
        solve(ROUND, says(assignment=(0, 1), bound=0.0))


def test_an_engine_refuses_what_it_cannot_take(says):
    with pytest.raises(SettingsError, match="engine 'says' cannot take backlog"):
        solve(MatchingProblem(ROUND.T, ROUND.A, 0.0, backlog=[1.0, 1.0]), says(assignment=(0, 0), bound=0.0))


def test_exact_enumerates_where_plans_are_few():
    def chosen(M, N):
        return type(Exact().resolve(MatchingProblem(np.ones((M, N)), np.ones((M, N)), 0.5), None, 60.0))

    assert chosen(3, 10) is Enumerate
    assert chosen(3, 11) is Milp
    assert chosen(1, 100) is Enumerate
    assert chosen(40, 30_000) is Milp  # 40 to the power of 30,000 is not computed


@pytest.mark.parametrize(
    ("M", "N", "limit", "options", "name"),
    [
        (3, 5, 60.0, {}, "enumerate"),
        (5, 20, 60.0, {}, "milp"),
        (30, 40, 60.0, {}, "milp"),  # few tasks per cluster: the relaxation is far from any plan
        (5, 20, 0.5, {}, "dual"),
        (10, 100, 60.0, {}, "dual"),
        (3, 20, 60.0, {"zeta": np.linspace(1.0, 0.6, 21)}, "dual"),
        (20, 500, 60.0, {"backlog": np.ones(20)}, "dual"),
    ],
)
def test_auto_chooses_by_size_and_time_and_says_which(M, N, limit, options, name):
    rng = np.random.default_rng(0)
    problem = MatchingProblem(rng.uniform(1, 2, (M, N)), np.full((M, N), 0.9), 0.5, **options)
    assert solve(problem, time_limit=limit).engine == name


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
@settings(max_examples=60, deadline=None)
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


@given(platforms())
@settings(max_examples=200, deadline=None)
def test_simple_bounds_are_below_every_plan(given):
    problem = built(given)
    assume(problem is not None)
    for price in (None, 3.0):
        best = best_by_hand(given, price)
        bound = simple_bound(problem, None if price is None else np.asarray(price))
        assert bound <= best * (1 + 1e-12)


def test_simple_bounds_by_hand():
    T = np.array([[2.0, 4.0], [3.0, 3.0]])
    A = np.full((2, 2), 0.5)
    assert span_bound(MatchingProblem(T, A, 0.0)) == 3.0  # the second task alone
    assert span_bound(MatchingProblem(T, A, 0.0, backlog=[10.0, 1.0])) == 6.0  # both after one second on the other
    assert simple_bound(MatchingProblem(T, A, 0.7), np.asarray(10.0)) == pytest.approx(3.0 + 10 * 0.2)


def test_the_package_offers_it():
    import mfcp

    assert mfcp.solve is solve

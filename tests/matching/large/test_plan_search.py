"""Plans of the local search: valid under every extension, as good as enumeration where that is possible."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.large.moderate_rounds import unrelated
from matching.platforms import best_by_hand, built, holds, platforms, told

from mfcp.matching.large import plan_search
from mfcp.matching.large.candidates import Prices, Pricing, gather, rows_of
from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.problem import MatchingProblem, makespan, reliability, violations


def crude(problem):
    """Prices that know nothing: every allowed cluster a candidate with an equal share, no bound."""
    M = problem.clusters
    rows = rows_of(problem)
    cluster = np.where(problem.allowed.T, np.arange(M, dtype=np.int32), np.int32(-1))
    candidates = gather(problem, rows, cluster)
    candidates.share[:] = (cluster >= 0) / (cluster >= 0).sum(axis=1)[:, None]
    seconds = np.full(M, problem.objective.makespan / M)
    prices = Prices(seconds, 0.0, np.zeros((len(rows), M)))
    return Pricing(prices, prices, -np.inf, candidates, {})


@settings(max_examples=60, derandomize=True)
@given(given=platforms(most_tasks=4), priced=st.booleans(), soft=st.booleans())
def test_plans_hold_and_none_beats_enumeration(given, priced, soft):
    problem = built(given)
    assume(problem is not None)
    N = problem.tasks
    charge = 2.0 * float(np.max(given["T"])) if soft else None  # of mean reliability
    penalty = None if charge is None else charge / N
    pricing = price(problem, time_limit=10.0, penalty=penalty) if priced else crude(problem)
    plan = search(problem, pricing, effort=0.1, time_limit=10.0, penalty=penalty)
    if plan[0] < 0:
        assert (plan == -1).all()
        assert not (priced and problem.plain) or best_by_hand(given, charge) == np.inf
        return
    value, excess = told(given, plan)
    assert not excess.pop("allowed")
    assert holds(excess, given, but=("reliability",) if soft else ())
    best = best_by_hand(given, charge)
    assert value + (charge or 0.0) * excess["reliability"] >= best * (1 - 1e-6)


def test_hardly_a_round_that_has_a_plan_is_left_without():
    """Of rounds with every constraint, as the property above draws them."""
    found, possible = 0, 0

    @settings(max_examples=60, derandomize=True, database=None)
    @given(given=platforms(most_tasks=4))
    def count(given):
        nonlocal found, possible
        problem = built(given)
        assume(problem is not None and best_by_hand(given, None) < np.inf)
        possible += 1
        found += search(problem, price(problem, time_limit=10.0), effort=0.1, time_limit=10.0)[0] >= 0

    count()
    assert found >= 0.9 * possible > 20


def test_most_small_rounds_are_solved_to_the_optimum():
    solved = []
    for seed in range(40):
        problem = unrelated(3, 6, seed, gamma=0.5 + 0.4 * (seed % 2))
        every = np.stack(np.unravel_index(np.arange(3**6), (3,) * 6), axis=1)
        copies = problem.take(None).take(np.zeros(len(every), int))
        good = violations(copies, every)["reliability"] == 0
        best = makespan(every, copies.T)[good].min(initial=np.inf)
        plan = search(problem, price(problem, time_limit=10.0), time_limit=10.0)
        found = np.inf if plan[0] < 0 else makespan(plan, problem.T)
        assert found >= best
        solved.append(found <= best)
    assert np.mean(solved) >= 0.75  # engine auto enumerates rounds as small as these


def test_a_round_of_a_thousand_tasks_comes_near_its_bound():
    problem = unrelated(20, 1000, 1, gamma=0.87)
    pricing = price(problem, time_limit=10.0)
    plan = search(problem, pricing, time_limit=60.0)
    assert reliability(plan, problem.A) >= problem.gamma - 1e-9
    assert pricing.bound <= makespan(plan, problem.T) <= 1.005 * pricing.bound


def test_equal_seeds_give_equal_plans_and_a_known_plan_is_not_lost():
    problem = unrelated(5, 60, 3)
    pricing = price(problem, time_limit=10.0)
    first, again = (search(problem, pricing, time_limit=60.0, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    warm = search(problem, pricing, time_limit=0.0, start=first)
    assert makespan(warm, problem.T) <= makespan(first, problem.T) * (1 + 1e-12)


@pytest.mark.parametrize("limit", [0, 6])
def test_the_time_limit_stops_the_search(limit, monkeypatch):
    """The clock ticks once per chunk of annealing here, so the number of chunks says when the search stopped."""
    problem = unrelated(50, 1000, 4)
    pricing = replace(price(problem, time_limit=10.0), bound=0.0)  # no plan is near enough to it to stop early
    chunks, anneal = [], plan_search.annealing.anneal

    def counted(*arguments):
        chunks.append(None)
        return anneal(*arguments)

    monkeypatch.setattr(plan_search.annealing, "anneal", counted)
    monkeypatch.setattr(plan_search.clock, "seconds", lambda: float(len(chunks)))
    assert search(problem, pricing, time_limit=float(limit)).min() >= 0
    # Every search that runs side by side may have started one chunk when the time was up.
    assert limit <= len(chunks) <= limit + 1 + plan_search.STARTS
    chunks.clear()
    search(problem, pricing, time_limit=np.inf)
    assert len(chunks) > 3 * (limit + 1 + plan_search.STARTS)


def test_no_plan_is_all_minus_one():
    T, A = np.ones((2, 4)), np.full((2, 4), 0.9)
    problem = MatchingProblem(T, A, 0.8, deadline=[1.0, 1.0, 1.0, np.inf])
    assert (search(problem, crude(problem), time_limit=5.0) == -1).all()

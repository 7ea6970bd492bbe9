"""Engine `search`: never better than brute force, nearly always as good, its proofs true, its plans the round's own."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.small_rounds import rounds

from mfcp import compiling
from mfcp.errors import SettingsError
from mfcp.matching.engines.exact import Milp
from mfcp.matching.engines.search import Search
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import Capacity, MatchingProblem
from mfcp.matching.relaxed import compiled as compiled_rounds
from mfcp.matching.relaxed.argmin import soonest


@given(
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0.5, 30.0]),
)
@settings(max_examples=150)
def test_statuses_bounds_and_plans_agree_with_enumeration(M, N, seed, masked, parallel, ties, price):
    problem = rounds(M, N, 4, seed, masked=masked, parallel=parallel, ties=ties)
    found, best = solve(problem, "search", price=price), solve(problem, "enumerate", price=price)
    np.testing.assert_array_equal(found.status == "infeasible", best.status == "infeasible")
    there = best.status == "optimal"
    assert (found.objective[there] >= best.objective[there] * (1 - 1e-12)).all()
    assert (found.lower_bound[there] <= best.objective[there] * (1 + 1e-12)).all()
    proven = found.status == "optimal"
    assert found.objective[proven] == pytest.approx(best.objective[proven], rel=2e-6)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("price", [None, 3.0])
@pytest.mark.parametrize("budget", [0, 30_000])
def test_nearly_all_small_rounds_are_solved_to_the_optimum(parallel, price, budget):
    """With the enumeration and, at budget 0, by descents alone."""
    problem = rounds(3, 7, 150, 1, parallel=parallel)
    found = solve(problem, Search(budget=budget, effort=30_000), price=price).objective
    best = solve(problem, "enumerate", price=price).objective
    there = np.isfinite(best)
    assert np.mean(found[there] <= best[there] * (1 + 1e-9)) >= 0.95


def test_beyond_enumeration_it_comes_within_a_thousandth_of_highs():
    problem = rounds(3, 16, 20, 2, gamma=0.8, masked=False)
    found, best = solve(problem, "search"), solve(problem, "milp")
    assert (best.status == "optimal").all()
    assert (found.objective >= best.objective * (1 - 1e-6)).all()
    assert (found.lower_bound <= best.objective * (1 + 1e-6)).all()
    assert np.mean(found.objective / best.objective - 1) <= 1e-3
    assert np.mean(found.status == "optimal") >= 0.8


@pytest.mark.parametrize("parallel", [False, True])
def test_order_of_clusters_and_tasks_and_the_unit_hardly_matter(parallel):
    rng = np.random.default_rng(4)
    problem = rounds(3, 14, 12, 4, gamma=0.75, parallel=parallel)
    rows, columns = rng.permutation(3), rng.permutation(14)
    curve = None if problem.zeta is None else problem.zeta[rows]
    T = np.where(problem.allowed, problem.T, 1.0)[:, rows][:, :, columns] * 3600
    other = MatchingProblem(
        T, problem.A[:, rows][:, :, columns], problem.gamma, problem.allowed[:, rows][:, :, columns], curve
    )
    one, two = solve(problem, "search"), solve(other, "search")
    np.testing.assert_array_equal(one.status == "infeasible", two.status == "infeasible")
    there = np.isfinite(one.objective)
    ratio = two.objective[there] / one.objective[there] / 3600
    assert np.mean(np.abs(ratio - 1) < 1e-9) >= 0.8
    assert np.abs(ratio - 1).max() < 0.03


def test_a_plan_depends_on_its_round_alone(monkeypatch):
    import torch

    problem = rounds(3, 20, 24, 5, gamma=0.8)
    whole = solve(problem, "search")
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        threaded = solve(problem, "search")
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr("mfcp.matching.engines.search._ENTRIES", 300)
    parts = solve(problem, "search")
    alone = np.concatenate([solve(problem.take(slice(b, b + 1)), "search").assignment for b in range(6)])
    np.testing.assert_array_equal(threaded.assignment, whole.assignment)
    np.testing.assert_array_equal(parts.assignment, whole.assignment)
    np.testing.assert_array_equal(alone, whole.assignment[:6])


def test_gamma_at_the_edge_and_beyond():
    problem = rounds(3, 12, 6, 6, gamma=0.0)
    edge = problem.at(problem.reachable_gamma())
    found = solve(edge, "search")
    best = np.where(problem.allowed, problem.A, -1.0).argmax(axis=1)
    np.testing.assert_array_equal(found.assignment, best)  # drawn numbers: no ties
    beyond = solve(problem.at(problem.reachable_gamma() + 1e-6), "search")
    assert (beyond.status == "infeasible").all()
    assert (beyond.assignment == -1).all()


def test_many_rounds_go_to_it_and_fall_back_like_any():
    problem = rounds(3, 14, 20, 7, gamma=0.9)
    assert solve(problem).engine == "search"
    assert solve(problem.take(slice(0, 3))).engine == "milp"
    by_search = solve_or_fall_back(problem)
    assert {"fallback"} < set(by_search.status)
    by_highs = solve_or_fall_back(problem, "milp")
    np.testing.assert_array_equal(by_search.status == "fallback", by_highs.status == "fallback")
    np.testing.assert_allclose(by_search.objective, by_highs.objective, rtol=5e-3)


def test_how_a_round_falls_back_does_not_hang_on_how_many_others_do(monkeypatch):
    """`auto` alone would give a few rounds to HiGHS, whose plan hangs on the clock."""
    monkeypatch.setattr(Milp, "match_round", lambda *_, **__: pytest.fail("went to HiGHS"))
    problem = rounds(3, 30, 20, 7, gamma=0.2)
    beyond = problem.reachable_gamma() + 0.01
    few = problem.at(np.where(np.arange(20) < 2, beyond, 0.2))
    found, all_ = solve_or_fall_back(few), solve_or_fall_back(problem.at(beyond))
    assert found.engine == "search"
    np.testing.assert_array_equal(found.status == "fallback", np.arange(20) < 2)
    np.testing.assert_array_equal(found.assignment[:2], all_.assignment[:2])
    np.testing.assert_array_equal(found.objective[:2], all_.objective[:2])


def test_one_cluster_single_precision_and_what_it_refuses():
    ones = np.ones((2, 1, 20), np.float32)
    single = solve(MatchingProblem(0.1 * ones, ones, 1.0), "search")
    assert single.makespan == pytest.approx(2.0)
    assert (single.status == "optimal").all()
    with pytest.raises(SettingsError, match="engine 'search' cannot take backlog"):
        solve(MatchingProblem(ones, ones, 0.5, capacities=[Capacity("n", 1, 20)]), "search")


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (3, 1), (4, 8)])
@pytest.mark.parametrize("price", [None, 0.0, 2.0])
def test_a_single_round_does_not_wait_for_a_kernel_and_has_the_same_plan(size, price, monkeypatch):
    asked = []
    for seed, (masked, parallel, ties) in enumerate(product([False, True], repeat=3)):
        problem = rounds(*size, 1, seed, masked=masked, parallel=parallel, ties=ties)
        compiled = solve(problem, "search", price=price)
        with monkeypatch.context() as first:
            first.setattr(compiling, "is_ready", lambda name: False)
            first.setattr(compiling, "prepare_ahead", asked.append)
            first.setattr(compiled_rounds, "solve_rounds", None)  # is not called
            found = solve(problem, "search", price=price)
            assert soonest(2) == "auto"
        np.testing.assert_array_equal(found.assignment, compiled.assignment)
        np.testing.assert_array_equal(found.status, compiled.status)
        assert found.lower_bound == pytest.approx(compiled.lower_bound, rel=1e-9)
    assert asked == [["matching.kernels.relaxed_newton"]] * len(asked) != []

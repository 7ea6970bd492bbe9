"""Prices: the bound is below every plan and meets the linear relaxation, on whatever a platform adds."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, platforms
from scipy.optimize import linprog

from mfcp.matching import solve
from mfcp.matching.bounds import apart_bound, least_end
from mfcp.matching.large import pricing, shards
from mfcp.matching.large.identical_tasks import alike
from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.large.shards import Threads
from mfcp.matching.problem import Capacity, MatchingProblem, Objective, makespan, objective_value


def unrelated(M, N, seed, *, sigma=1.0, gamma=0.9, **options):
    rng = np.random.default_rng([seed, M, N])
    T = rng.lognormal(0, sigma, N) * rng.lognormal(0, 0.4, (M, 1)) * rng.lognormal(0, 0.3, (M, N))
    return MatchingProblem(T, rng.uniform(0.7, 1.0, (M, N)), gamma, **options)


def relaxed(problem):
    """The linear relaxation by HiGHS: makespan, reliability, and one capacity at most; without backlog."""
    M, N = problem.clusters, problem.tasks
    weights = problem.objective
    each = np.arange(M * N)
    load = np.zeros((M, M * N + 1))
    T = np.where(problem.allowed, problem.T, 0.0)
    load[each // N, each] = T.ravel()
    load[:, -1] = -1.0
    rows, limits = [load], [np.zeros(M)]
    for capacity in problem.capacities:
        used = np.zeros((M, M * N + 1))
        used[each // N, each] = capacity.use.ravel()
        rows, limits = [*rows, used], [*limits, capacity.limit]
    rows.append(np.append(-problem.A.ravel(), 0.0)[None])
    limits.append([-problem.gamma * N])
    once = np.zeros((N, M * N + 1))
    once[each % N, each] = 1.0
    cost = weights.total_time * T.ravel()
    if problem.cost is not None:
        cost = cost + weights.cost * problem.cost.ravel()
    found = linprog(
        np.append(cost, weights.makespan), np.concatenate(rows), np.concatenate(limits), once, np.ones(N),
        bounds=[(0, 1 if ok else 0) for ok in problem.allowed.ravel()] + [(0, None)],
    )  # fmt: skip
    assert found.status == 0
    return found.fun


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=200, deadline=None)
def test_no_plan_is_below_the_bound(given, penalty):
    problem, expected = built(given), best_by_hand(given, penalty)
    assume(problem is not None)
    found = price(problem, time_limit=10.0, penalty=None if penalty is None else penalty / problem.tasks)
    assert found.bound <= expected * (1 + 1e-9)
    assume(np.isfinite(found.bound))
    candidates = found.candidates
    missing = candidates.cluster < 0
    np.testing.assert_allclose(candidates.share.sum(axis=1), 1.0)
    assert not candidates.share[missing].any()
    tasks = np.arange(problem.tasks)[:, None]
    assert problem.allowed[np.maximum(candidates.cluster, 0), tasks][~missing].all()


CASES = {
    "makespan": {},
    "float32": {"dtype": np.float32},
    "masks": {"mask": 0.3},
    "reliability binds": {"gamma": 0.955},
    "reliability does not": {"gamma": 0.1},
    "tasks per cluster": {"capacity": True},
    "total time": {"objective": Objective(makespan=1.0, total_time=0.02)},
    "cost alone": {"objective": Objective(makespan=0.0, cost=1.0), "costs": True},
}


@pytest.mark.parametrize("case", CASES)
def test_bound_meets_the_linear_relaxation(case):
    options = dict(CASES[case])
    M, N, rng = 6, 90, np.random.default_rng(0)
    extra = {"gamma": options.get("gamma", 0.9), "objective": options.get("objective", Objective())}
    if "mask" in options:
        extra["allowed"] = rng.random((M, N)) > options["mask"]
        extra["allowed"][0] = True
    if "capacity" in options:
        extra["capacities"] = [Capacity("tasks", 1, np.full(M, N // M))]
    if "costs" in options:
        extra["cost"] = rng.uniform(0.5, 2.0, (M, N))
    problem = unrelated(M, N, 1, **extra)
    if "dtype" in options:
        problem = MatchingProblem(problem.T.astype(np.float32), problem.A.astype(np.float32), 0.9)
    optimum = relaxed(problem)
    found = price(problem, time_limit=60.0, tolerance=1e-6, fixing=False)
    assert optimum * (1 - 1e-5) <= found.bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize(("M", "N", "candidates"), [(40, 400, 8), (15, 3000, 6)])
def test_few_candidates_and_a_sample_reach_the_same_bound(M, N, candidates):
    problem = unrelated(M, N, 2, gamma=0.96, sigma=0.3)
    found = price(problem, time_limit=60.0, candidates=candidates, tolerance=1e-5)
    whole = price(problem, time_limit=60.0, candidates=M, tolerance=1e-5)
    assert found.bound == pytest.approx(whole.bound, rel=2e-5)
    assert found.stats["value"] >= whole.bound * (1 - 1e-9)


def test_the_task_that_takes_longest_is_a_bound():
    problem = unrelated(4, 30, 3)
    long_task = MatchingProblem(np.where(np.arange(30) == 7, 1e4, problem.T), problem.A, 0.8)
    assert price(long_task, time_limit=10.0).bound == pytest.approx(1e4)


def test_a_giant_task_and_backlog_raise_the_bound_above_the_relaxation():
    """Two clusters of equal speed: relaxed, the long task would be split over both, and backlog be worked around."""
    T, A = np.full((2, 21), 1.0), np.ones((2, 21))
    T[:, 0] = 30.0  # then 25 on average
    assert price(MatchingProblem(T, A, 0.0), time_limit=10.0).bound == pytest.approx(30.0)
    waits = MatchingProblem(T[:, 1:], A[:, 1:], 0.0, backlog=[0.0, 100.0])
    found = price(waits, time_limit=10.0)  # all on the first, for the second's backlog counts if it gets a task
    assert 19.9 <= found.bound <= 20.0


def test_kinds_of_tasks_are_priced_once():
    few = unrelated(8, 12, 4, gamma=0.93)
    which = np.random.default_rng(5).integers(0, 12, 900)
    problem = MatchingProblem(few.T[:, which], few.A[:, which], 0.93)
    kinds = alike(problem)
    assert kinds is not None
    assert (few.T[:, which[np.unique(kinds, return_index=True)[1]]][:, kinds] == problem.T).all()
    assert alike(unrelated(8, 900, 4)) is None
    found = price(problem, time_limit=60.0, tolerance=1e-6)
    assert found.bound == pytest.approx(relaxed(problem), rel=1e-5)
    candidates = found.candidates  # shares of the tasks together are the relaxed plan: no cluster is above its load
    load = np.bincount(candidates.cluster.ravel(), (candidates.share * candidates.time).ravel(), 8)
    assert load.max() <= found.bound * 1.001
    assert (candidates.share * candidates.reliability).sum() >= (0.93 - 1e-4) * 900


def test_unreachable_reliability_and_capacities_are_proven():
    beyond = unrelated(3, 40, 6, gamma=0.999)
    assert price(beyond, time_limit=10.0).bound == np.inf
    full = unrelated(3, 40, 6, gamma=0.5, capacities=[Capacity("tasks", 1, np.array([13, 13, 13]))])
    assert price(full, time_limit=10.0).bound == np.inf


def test_prices_of_the_last_round_save_work():
    problem = unrelated(30, 4000, 7, gamma=0.95)
    cold = price(problem, time_limit=60.0)
    later = MatchingProblem(problem.T * 1.001, problem.A, 0.95)
    warm = price(later, time_limit=60.0, start=cold.prices)
    assert warm.bound == pytest.approx(1.001 * cold.bound, rel=3e-4)
    assert warm.stats["steps"] < cold.stats["steps"]
    assert warm.stats["sample_passes"] == 0


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(shards, "_WORTH", 500)
    problem = unrelated(12, 700, 8)
    one, two = (price(problem, time_limit=60.0, place=lambda data, width, n=n: Threads(data, width, n)) for n in (1, 2))
    assert one.bound == two.bound
    assert (one.candidates.cluster == two.candidates.cluster).all()
    assert (one.candidates.share == two.candidates.share).all()


@given(st.integers(0, 2**32 - 1), st.floats(1e-5, 1e5))
@settings(max_examples=15, deadline=None)
def test_order_of_clusters_and_unit_of_time_do_not_matter(seed, unit):
    problem = unrelated(6, 60, seed)
    order = np.random.default_rng(seed).permutation(6)

    def bound(T, A, fixing):
        return price(MatchingProblem(T, A, 0.9), time_limit=10.0, tolerance=1e-5, fixing=fixing).bound

    relaxation, branched = (bound(problem.T, problem.A, fixing) for fixing in (False, None))
    assert bound(unit * problem.T[order], problem.A[order], False) == pytest.approx(unit * relaxation, rel=2e-5)
    assert bound(unit * problem.T, problem.A, None) == pytest.approx(unit * branched, rel=1e-6)
    other = bound(problem.T[order], problem.A[order], None)  # of as many branches, but not quite the same ones
    assert other == pytest.approx(branched, rel=5e-3)
    assert min(other, branched) >= relaxation * (1 - 2e-5)


def sized(sizes, M, rng):
    """Tasks of these sizes on M clusters that differ in speed."""
    T = sizes * rng.lognormal(0, 0.4, (M, 1)) * rng.lognormal(0, 0.3, (M, len(sizes)))
    return MatchingProblem(T, rng.uniform(0.7, 1.0, T.shape), 0.9)


def many_long_tasks(M, N, seed):
    """M // 4 tasks that each fill most of a cluster, among small ones."""
    rng = np.random.default_rng([seed, M, N])
    sizes = rng.lognormal(0, 0.7, N)
    sizes[: M // 4] = 0.9 * sizes.sum() / M * rng.uniform(0.8, 1.2, M // 4)
    return sized(sizes, M, rng)


def test_giants_are_settled_and_the_rest_priced_around_them():
    problem = many_long_tasks(30, 4000, 0)
    found = price(problem, time_limit=60.0)
    least = problem.T.min(axis=0)
    long_tasks = np.flatnonzero(least > 0.25 * found.bound)
    chosen = found.candidates.cluster[long_tasks]
    assert len(long_tasks) >= 4
    assert (chosen[:, 0] >= 0).all()
    assert (chosen[:, 1:] < 0).all()
    load = np.bincount(chosen[:, 0], problem.T[chosen[:, 0], long_tasks], minlength=30)
    assert load.max() <= 1.01 * found.bound
    plan = search(problem, found, time_limit=60.0)
    assert found.bound <= makespan(plan, problem.T) <= 1.01 * found.bound  # far from it if the relaxation splits them


def heavy(M, N, index, seed):
    """Pareto sizes of that index: one task may be longer than all the others need."""
    rng = np.random.default_rng([seed, M, N])
    return sized(1.0 + rng.pareto(index, N), M, rng)


@pytest.mark.parametrize("index", [1.5, 1.2, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_rounds_that_hang_on_a_few_long_tasks_lose_less_than_a_task_of_a_cluster(index, seed):
    problem = heavy(60, 2400, index, seed)
    found = price(problem, time_limit=60.0)
    plan = search(problem, found, time_limit=60.0)
    assert plan.min() >= 0
    assert found.bound <= makespan(plan, problem.T) <= (1.0 + 60 / 2400) * found.bound


def test_a_poor_plan_is_searched_again_with_giants_settled(monkeypatch):
    problem = heavy(60, 2400, 1.5, 1)
    found = price(problem, time_limit=60.0, fixing=False)
    assert makespan(search(problem, found, time_limit=60.0), problem.T) > 1.1 * found.bound
    monkeypatch.setattr(pricing, "SPLIT", np.inf)  # the first attempt leaves long tasks to the search
    solution = solve(problem, "dual")
    assert solution.gap <= 60 / 2400


def test_a_round_that_capacities_rule_out_does_not_stop_its_neighbours():
    T = np.tile(np.array([[1.0], [2.0]]), (2, 1, 30))
    capacity = Capacity("tasks", use=1.0, limit=np.array([[20.0], [10.0]]))
    solution = solve(MatchingProblem(T, np.ones((2, 2, 30)), 0.5, capacities=[capacity]), "dual")
    assert solution.makespan[0] == 20.0
    assert str(solution.status[1]) == "infeasible"


def test_a_rounded_plan_that_needs_no_move_is_one():
    rng = np.random.default_rng([0, 20, 1000, 4])
    T = np.tile(1.0 / rng.lognormal(0, 0.4, (20, 1)), 1000)
    A = np.tile(0.995 - 0.3 * rng.random((20, 1)), 1000)
    fast, best = A[T[:, 0].argmin(), 0], A[:, 0].max()
    problem = MatchingProblem(T, A, 0.5 * (fast + best))
    found = price(problem, time_limit=10.0)
    plan = search(problem, found, time_limit=10.0)
    assert plan.min() >= 0
    assert makespan(plan, T) <= 1.001 * found.bound


@given(st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_tasks_that_share_no_cluster_bound_the_makespan(seed):
    rng = np.random.default_rng(seed)
    M, N = 3, int(rng.integers(1, 6))
    backlog = rng.uniform(0, 1, M) if rng.random() < 0.5 else None
    zeta = np.r_[1.0, rng.uniform(0.5, 1.0, N)] if rng.random() < 0.3 else None
    T = rng.lognormal(0, 0.5, (M, N))
    problem = MatchingProblem(
        T,
        np.ones((M, N)),
        0.0,
        allowed=rng.random((M, N)) < 0.8 + (np.arange(M) == 0)[:, None],
        backlog=backlog,
        zeta=zeta,
    )
    every = np.stack(np.unravel_index(np.arange(M**N), (M,) * N), axis=1)
    ends = objective_value(problem.take(None).take(np.zeros(len(every), int)), every)
    ends = ends[problem.allowed[every, np.arange(N)].all(axis=1)]
    bound = apart_bound(problem, 0.0)
    assert bound <= ends.min() * (1 + 1e-12)
    if zeta is None:
        assert bound >= least_end(problem) * (1 - 1e-12) or N == 1

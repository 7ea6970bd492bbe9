"""The ADMM core against projections done otherwise, its matching against HiGHS and against every plan."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog, nnls

from mfcp.errors import InfeasibleError, SettingsError
from mfcp.matching.decomposition.alternating_directions import (
    iterate,
    nonnegative_quadratic,
    project_knapsack,
    project_simplex,
)
from mfcp.matching.decomposition.fractional import Multipliers, RelaxedMatching
from mfcp.matching.engines.admm import Admm
from mfcp.matching.large.candidates import rows_of
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem, Objective, objective_value, violations

seeds = st.integers(0, 2**32 - 1)


def drawn(M, N, seed, tight=0.6):
    """A round whose gamma binds, T in arbitrary seconds."""
    rng = np.random.default_rng(seed)
    T = 40 * rng.lognormal(0, 0.8, N) / rng.lognormal(0, 0.4, (M, 1)) * np.exp(0.4 * rng.standard_normal((M, N)))
    A = 0.99 - 0.3 * rng.random((M, N)) - 0.1 * rng.random((M, 1))
    fast, best = A[T.argmin(0), np.arange(N)].mean(), A.max(0).mean()
    return MatchingProblem(T, A, fast + tight * (best - fast))


def relaxed_optimum(problem):
    """The least fractional makespan, by HiGHS."""
    (M, N), unit = problem.T.shape, problem.T.min(0).sum() / problem.T.shape[0]
    load = sparse.hstack([sparse.block_diag(list((problem.T / unit)[:, None])), -np.ones((M, 1))])
    mean = np.append(-problem.A.ravel() / N, 0.0)[None]
    once = sparse.hstack([sparse.hstack([sparse.eye(N)] * M), sparse.csr_matrix((N, 1))])
    return (
        unit
        * linprog(
            np.append(np.zeros(M * N), 1.0),
            A_ub=sparse.vstack([load, mean]),
            b_ub=np.append(np.zeros(M), -float(problem.gamma)),
            A_eq=once,
            b_eq=np.ones(N),
        ).fun
    )


@st.composite
def platforms(draw):
    """Small rounds with everything that a platform adds, feasible or not."""
    M, N, rng = draw(st.integers(1, 3)), draw(st.integers(1, 5)), np.random.default_rng(draw(seeds))
    T, A, allowed = rng.lognormal(0, 1, (M, N)), rng.uniform(0.5, 1, (M, N)), rng.random((M, N)) < 0.8
    allowed[rng.integers(M)] = True
    extra = {}
    if draw(st.booleans()):
        extra["backlog"] = rng.exponential(2, M)
    if draw(st.booleans()):
        extra["capacities"] = [Capacity("memory", rng.random(N), rng.random(M) * N)]
    if draw(st.booleans()):
        extra["deadline"] = np.where(rng.random(N) < 0.5, np.inf, 2 + rng.random(N) * 6)
    if draw(st.booleans()):
        extra |= {"objective": Objective(1.0, 0.2, 0.5), "cost": rng.random((M, N))}
    try:
        return MatchingProblem(T, A, draw(st.sampled_from([0.0, 0.7, 0.8])), allowed, **extra)
    except InfeasibleError:
        return MatchingProblem(T, A, 0.7)


@given(seeds, st.integers(1, 8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_simplex_projection_meets_its_optimality_conditions(seed, size, inside):
    rng = np.random.default_rng(seed)
    point, radius = 2 * rng.standard_normal((4, size)), rng.uniform(0.1, 3, 4)
    point[1, 1:] = -np.inf  # entries that are not there
    x = project_simplex(point, radius, inside=inside)
    total = x.sum(axis=1)
    assert (x >= 0).all()
    assert (total <= radius + 1e-12).all()
    for row in range(4):
        used = x[row] > 0
        level = (point[row] - x[row])[used].max(initial=0.0 if inside else -np.inf)
        assert (point[row][~used] <= level + 1e-12).all()
        np.testing.assert_allclose((point[row] - x[row])[used], level, atol=1e-12)
        assert abs(total[row] - radius[row]) < 1e-12 or (inside and abs(level) < 1e-12)


@given(seeds, st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_knapsack_projection_meets_its_optimality_conditions(seed, size):
    rng = np.random.default_rng(seed)
    point, weight, limit = 2 * rng.standard_normal((4, size)), rng.uniform(0.2, 3, size), rng.uniform(0.1, 3, 4)
    point[1, 1:] = -np.inf
    x = project_knapsack(point, weight, limit)
    total = x @ weight
    assert (x >= 0).all()
    assert (total <= limit + 1e-12).all()
    for row in range(4):
        used = x[row] > 0
        price = ((point[row] - x[row]) / weight)[used].max(initial=0.0)
        np.testing.assert_allclose((point[row] - x[row])[used], price * weight[used], atol=1e-12)
        assert (point[row][~used] <= price * weight[~used] + 1e-12).all()
        assert price < 1e-12 or abs(total[row] - limit[row]) < 1e-12


@given(seeds, st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_row_multipliers_are_those_of_nonnegative_least_squares(seed, rows):
    rng = np.random.default_rng(seed)
    matrix, target = rng.standard_normal((3, rows + 3, rows)), rng.standard_normal((3, rows + 3))
    gram, linear = np.einsum("mnk,mnl->klm", matrix, matrix), np.einsum("mnk,mn->km", matrix, target)
    found = nonnegative_quadratic(gram, linear, rng.random((rows, 3)))
    expected = np.stack([nnls(matrix[m], target[m])[0] for m in range(3)], axis=1)
    # coordinate descent stops after a fixed number of sweeps: what counts is the objective
    value = 0.5 * np.einsum("km,klm,lm->m", found, gram, found) - (linear * found).sum(axis=0)
    best = 0.5 * np.einsum("km,klm,lm->m", expected, gram, expected) - (linear * expected).sum(axis=0)
    assert (found >= 0).all()
    assert (value <= best + 0.02 * np.abs(best) + 1e-9).all()


@given(platforms(), seeds)
@settings(max_examples=40, deadline=None)
def test_both_steps_are_proximal(problem, seed):
    """A projection's result satisfies its constraints and lies nearer to the point than any other feasible one."""
    rng = np.random.default_rng(seed)
    blocks = RelaxedMatching(problem, [])
    start = blocks.cold()
    point = start.z + 0.3 * rng.standard_normal(start.z.shape)
    x = blocks.resource_step(point, 1.0)
    ends = (blocks.use[0] * x[:-2]).sum(0) - blocks.limit[0]
    assert (ends <= x[-2] + 1e-9).all()
    np.testing.assert_allclose(x[-1], (blocks.a * x[:-2]).sum(0), atol=1e-9)
    other = blocks.resource_step(x + 0.1 * rng.standard_normal(x.shape), 1.0)  # another feasible point
    assert ((point - x) * (other - x)).sum() <= 1e-9
    z = blocks.demand_step(point, 1.0)
    np.testing.assert_allclose(z[:-2].sum(axis=1), 1.0)
    assert z[-1].sum() >= blocks.need - 1e-9
    assert not z[:-2][~blocks.allowed].any()


@pytest.mark.parametrize(("M", "N", "seed"), [(3, 50, 0), (8, 60, 1), (10, 100, 2), (20, 200, 3)])
def test_fractions_and_bound_reach_the_optimum_of_the_linear_program(M, N, seed):
    problem = drawn(M, N, seed)
    optimum = relaxed_optimum(problem)
    blocks = RelaxedMatching(problem, [])
    bound, value = 0.0, np.inf
    for state in itertools.islice(iterate(blocks, blocks.cold()), 999, 1000):
        for candidate in (state, state.average()):
            bound = max(bound, blocks.bound(blocks.multipliers(candidate)))
            value = min(value, blocks.value(candidate))
    assert optimum * (1 - 1e-3) <= bound <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= value <= optimum * (1 + 5e-3)


@given(seeds, st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_any_prices_certify(seed, M, N):
    problem, rng = drawn(M, N, seed, tight=0.9), np.random.default_rng(seed)
    blocks = RelaxedMatching(problem, [])
    bound = blocks.bound(Multipliers(rng.dirichlet(np.ones(M))[None], 10 * rng.random()))
    assert bound <= relaxed_optimum(problem) * (1 + 1e-7)


@given(platforms())
@settings(max_examples=40, deadline=None)
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


def test_warm_start_after_a_change_of_all_times_takes_less_than_half():
    cold = warm = 0
    for M, N, seed in itertools.product((3, 10), (50, 200), (0, 1, 2)):
        problem, rng = drawn(M, N, seed), np.random.default_rng(seed)
        changed = MatchingProblem(
            problem.T * np.exp(0.05 * rng.standard_normal(problem.T.shape)), problem.A, problem.gamma
        )
        engine = Admm(tolerance=0.01)
        start = solve(problem, engine).state
        cold += int(solve(changed, engine).stats["iterations"][0])
        warm += int(solve(changed, engine, start=start).stats["iterations"][0])
    assert warm < cold / 2


@given(seeds)
@settings(max_examples=5, deadline=None)
def test_order_of_clusters_and_unit_of_time_do_not_matter(seed):
    problem, rng = drawn(4, 30, seed), np.random.default_rng(seed)
    order = rng.permutation(4)
    one = solve(problem, "admm")
    other = solve(MatchingProblem(3600 * problem.T[order], problem.A[order], problem.gamma), "admm")
    assert other.lower_bound == pytest.approx(3600 * one.lower_bound, rel=1e-6)
    assert other.makespan == pytest.approx(3600 * one.makespan, rel=1e-6)


def test_platform_rows_price_what_they_bind():
    """Memory for one task on the fast cluster: the bound knows that the other must go elsewhere."""
    T, memory = np.array([[1.0, 1.0], [5.0, 5.0]]), Capacity("memory", 1.0, [1.0, np.inf])
    free = solve(MatchingProblem(T, np.ones((2, 2)), 0.0), "admm")
    held = solve(MatchingProblem(T, np.ones((2, 2)), 0.0, capacities=[memory]), "admm")
    assert free.makespan == 2.0
    assert held.makespan == 5.0
    assert held.lower_bound == pytest.approx(5.0, rel=1e-3)


def test_backlog_counts_in_the_bound_up_to_the_bound():
    rng = np.random.default_rng(0)
    problem = MatchingProblem(rng.lognormal(size=(3, 60)), np.ones((3, 60)), 0.0, backlog=[10.0, 12.0, 500.0])
    solution = solve(problem, "admm")
    assert not (solution.assignment == 2).any()
    assert solution.gap < 0.05


def test_what_cannot_be_is_said():
    problem = drawn(3, 5, 0)
    assert solve(problem.at(1.0), "admm").status == "infeasible"
    with pytest.raises(SettingsError, match="same clusters and tasks"):
        solve(drawn(3, 6, 0), "admm", start=solve(problem, "admm").state)
    with pytest.raises(SettingsError, match="cannot take a price"):
        solve(problem, "admm", price=1.0)


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

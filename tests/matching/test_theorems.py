"""Theorems 1-5 of [Huo2025]_ as far as they hold; docs/equations.md says what holds instead."""

import itertools
import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.instances import rounds

from mfcp.matching import SpeedUp, ZerothOrder, relaxed_matching
from mfcp.matching.relaxed.argmin import respond, solve_relaxed
from mfcp.matching.relaxed.mirror_descent import mirror_descent, mirror_step, objective, objective_slope
from mfcp.matching.relaxed.objective import relaxed_problem, smooth_makespan


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 50.0, 1e4]))
def test_theorem_1_log_sum_exp_is_within_log_m_over_beta(M, seed, beta):
    generator = torch.Generator().manual_seed(seed)
    T = 10 * torch.rand((M, 4), dtype=torch.float64, generator=generator)
    X = torch.softmax(torch.randn((M, 4), dtype=torch.float64, generator=generator), 0)
    gap = smooth_makespan(X, T, beta) - (X * T).sum(1).max()
    assert -1e-12 * 40 <= gap <= math.log(M) / beta + 1e-12 * 40


def test_theorem_1_bound_is_attained_by_equal_loads():
    X, T = torch.full((3, 3), 1 / 3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64)
    assert abs(float(smooth_makespan(X, T, 7.0)) - 1 - math.log(3) / 7.0) < 1e-12


def test_theorem_2_barrier_solutions_are_feasible_and_approach_the_constraint():
    T, A, gamma = rounds(3, 5, 16)
    margins = []
    for lam in (1.0, 1e-1, 1e-2, 1e-3):
        X = relaxed_matching(T, A, gamma, 10.0, lam, 1e-3)
        margins.append((X * A).sum((1, 2)) / 5 - gamma)
        assert (margins[-1] > 0).all()
    assert all((small <= large + 1e-9).all() for large, small in itertools.pairwise(margins))


def estimates(problem, solution, G, delta, samples, seeds):
    rule = ZerothOrder(samples=samples, delta=delta, antithetic=False)
    return torch.stack([
        rule.estimate(problem, solution, G, torch.Generator().manual_seed(seed), of="T") for seed in range(seeds)
    ])  # fmt: skip


def test_theorem_3_variance_falls_as_one_over_s_and_bias_with_delta():
    T, A, gamma = rounds(3, 3, 24, spread=0.3)
    problem = relaxed_problem(T, A, gamma - 0.05, 3.0, 0.3, 0.3)
    solution = solve_relaxed(problem, tolerance=1e-13)
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact, _ = respond(problem, solution, G)
    few, many = (estimates(problem, solution, G, 1e-3, samples, 24) for samples in (4, 16))
    ratio = few.var(0).sum() / many.var(0).sum()
    assert 3.0 < ratio < 5.3  # 4: variance is proportional to 1 / S
    # Bias: the same directions at every delta, so that only delta acts. One-sided differences have bias O(delta).
    near, far = (estimates(problem, solution, G, delta, 64, 4).mean(0) for delta in (0.05, 0.2))
    base = estimates(problem, solution, G, 1e-4, 64, 4).mean(0)
    growth = (far - base).norm() / (near - base).norm()
    assert 2.5 < growth < 7.0
    assert (base - exact).norm() < exact.norm()


def test_theorem_3_holds_in_the_parallel_case_along_the_branch():
    T, A, gamma = rounds(3, 4, 12, spread=0.3, seed=3)
    problem = relaxed_problem(T / 2, A, gamma - 0.05, 2.0, 0.3, 0.3, speedup=SpeedUp(0.6, 2.0))
    solution = solve_relaxed(problem)
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def found(samples, delta, antithetic, seeds=range(2)):
        rule = ZerothOrder(samples=samples, delta=delta, antithetic=antithetic)
        generators = (torch.Generator().manual_seed(seed) for seed in seeds)
        return torch.stack([rule.estimate(problem, solution, G, generator, of="T") for generator in generators])

    few, many = (found(samples, 1e-3, True, range(24)) for samples in (4, 16))
    assert 3.0 < few.var(0).sum() / many.var(0).sum() < 5.3  # 4: variance is proportional to 1 / S
    # the same directions at every delta: what is left is bias, O(delta) one-sided and O(delta²) in pairs, for delta so
    # small that no cluster crosses the kink of zeta at one task
    base = found(32, 1e-4, True)
    one_sided, pairs = (
        [(found(32, delta, antithetic) - base).mean(0).norm() for delta in (0.005, 0.02)]
        for antithetic in (False, True)
    )
    assert 3.5 < one_sided[1] / one_sided[0] < 4.5  # 4
    assert 14.0 < pairs[1] / pairs[0] < 18.0  # 16
    assert pairs[1] < one_sided[1]
    # and the mean is the implicit gradient but for its own noise, whose expected square is the variance / repeats
    exact, _ = respond(problem, solution, G)
    assert (many.mean(0) - exact).square().sum() < 2 * many.var(0).sum() / len(many)


def test_theorem_4_mirror_descent_converges_linearly():
    T, A, gamma = rounds(3, 5, 8, spread=0.3)
    problem = relaxed_problem(T, A, gamma - 0.05, 3.0, 0.3, 0.1)
    optimum = solve_relaxed(problem, tolerance=1e-13).X
    best = objective(problem, optimum)
    X = mirror_descent(problem, 50)
    gaps = []
    for _ in range(3):
        gaps.append((objective(problem, X) - best).clamp_min(1e-15))
        X = mirror_descent(problem, 100, start=X)
    assert (gaps[1] < 0.5 * gaps[0]).all()
    assert (gaps[2] < 0.5 * gaps[1]).all()
    # and the rate is that of relative strong convexity: a factor 1 - tau / (tau + smoothness) per step at least
    _, curvature = objective_slope(problem, optimum)
    rate = (1 - problem.tau / (problem.tau + curvature)) ** 100
    assert (gaps[1] < 1.1 * rate * gaps[0] + 1e-12).all()


def test_theorem_5_descent_is_monotone_and_reaches_stationarity_without_convexity():
    T, A, gamma = rounds(3, 5, 8, spread=0.3)
    problem = relaxed_problem(T / 2, A, gamma - 0.05, 3.0, 0.3, 0.2, speedup=SpeedUp(0.6, 2.0))
    X = mirror_descent(problem, 1)
    values, residuals = [], []
    for _ in range(400):
        slope, _ = objective_slope(problem, X)
        residuals.append((X * (slope - (X * slope).sum(1, keepdim=True))).abs().amax((1, 2)))
        values.append(objective(problem, X))
        X = mirror_step(problem, X)
    values, residuals = torch.stack(values), torch.stack(residuals)
    assert (values[1:] <= values[:-1] + 1e-11).all()
    assert (residuals[-1] < 1e-3 * residuals[0]).all()

"""Theorems 1-5 of [Huo2025]_: as printed where they hold, else a counterexample and what holds instead."""

import itertools
import math
from dataclasses import replace

import cvxpy
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.instances import rounds

from mfcp.matching import SpeedUp, ZerothOrder, relaxed_matching
from mfcp.matching.reference.literal import softmax_descent
from mfcp.matching.relaxed.argmin import respond, solve_relaxed
from mfcp.matching.relaxed.mirror_descent import mirror_descent, mirror_step, objective, objective_slope
from mfcp.matching.relaxed.objective import relaxed_problem, smooth_makespan


@settings(max_examples=60)
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


# The statements as printed, (11) and (18)-(20), where they do not hold, and what holds in their place.


def reliable_plan(A):
    return torch.zeros_like(A).scatter_(1, A.argmax(1, keepdim=True), 1.0)


def test_11_fails_for_algorithm_1_whatever_the_constants():
    """Of some rounds its plans miss gamma by as much after 16 times the steps; by (11) it would be c / (lam √k)."""
    T, A, gamma = rounds(3, 5, 16, tight=0.9)
    for lam in (1e-2, 1.0):
        problem = relaxed_problem(T, A, gamma, 10.0, lam, 1.0)
        problem = replace(problem, tau=0 * problem.tau)  # as printed
        short = [(gamma - (softmax_descent(problem, steps=k) * A).sum((1, 2)) / 5) for k in (100, 1600)]
        missed = (short[0] > 0.01) & (short[1] > 0.99 * short[0])
        assert missed.any()


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 1e-1, 1e-2, 1e-3]))
def test_11_mended_the_optimum_keeps_gamma_by_a_margin_and_costs_at_most_lam(seed, lam):
    """g >= lam m / (lam + h(X') - h(X)) for every plan X' with g(X') = m > 0, and h(X) <= min h + lam, where h is F
    without its barrier: first-order optimality and convexity. The least h comes of a conic solver.
    """
    T, A, gamma = rounds(3, 4, 1, seed=seed)
    beta, tau = 5.0, 0.05
    X = relaxed_matching(T, A, gamma, beta, lam, tau)

    def h(plan):
        return smooth_makespan(plan, T, beta) + tau * torch.special.xlogy(plan, plan).sum((1, 2))

    def g(plan):
        return (plan * A).sum((1, 2)) / 4 - gamma

    other = reliable_plan(A)
    assert (g(X) >= (1 - 1e-6) * lam * g(other) / (lam + h(other) - h(X))).all()
    free = cvxpy.Variable((3, 4), nonneg=True)
    least = cvxpy.log_sum_exp(beta * cvxpy.sum(cvxpy.multiply(T[0].numpy(), free), axis=1)) / beta
    least -= tau * cvxpy.sum(cvxpy.entr(free))
    kept = cvxpy.sum(cvxpy.multiply(A[0].numpy(), free)) / 4 >= float(gamma)
    best = cvxpy.Problem(cvxpy.Minimize(least), [cvxpy.sum(free, axis=0) == 1, kept]).solve(solver=cvxpy.CLARABEL)
    assert -1e-6 <= float(h(X)) - best <= lam + 1e-6


def forward_difference(F, x, delta, samples, repeats, seed):
    """(repeats, d) estimates (F(x + delta v) - F(x)) / delta · v, each a mean over samples."""
    v = np.random.default_rng(seed).standard_normal((repeats, samples, len(x)))
    return ((F(x + delta * v) - F(x))[..., None] / delta * v).mean(1)


def test_18_fails_in_its_bias_and_in_its_variance():
    delta, smooth = 0.1, 2.0
    # F(x) = beta x|x| / 2 is beta-smooth; at 0, where its derivative is 0, the mean estimate is beta Δ √(2/pi)
    bias = forward_difference(lambda x: smooth * (x * abs(x)).sum(-1) / 2, np.zeros(1), delta, 1000, 1000, 0).mean()
    assert abs(bias - smooth * delta * math.sqrt(2 / math.pi)) < 0.01 * bias
    assert smooth**2 * delta**2 / 4 < bias**2 <= smooth**2 * delta**2
    # a linear F, without noise: beta = sigma_F = 0, and the bound is 0
    slope, S = np.array([1.0, -2.0, 0.5]), 4
    off = forward_difference(lambda x: x @ slope, np.zeros(3), delta, S, 20_000, 1) - slope
    expected = (len(slope) + 1) * (slope**2).sum() / S
    assert abs((off**2).sum(1).mean() - expected) < 0.05 * expected


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.01, 0.3, 3.0]), st.sampled_from([1, 8]))
def test_18_mended_by_stein_and_nesterov_spokoiny(seed, d, delta, S):
    """E‖est - ∇F‖² <= beta² Δ² d + [beta² Δ² (d + 6)³ / 2 + 2 (d + 4) ‖∇F‖²] / S."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((d, d))
    H, c = H + H.T, rng.standard_normal(d)
    smooth = np.abs(np.linalg.eigvalsh(H)).max()
    off = forward_difference(lambda x: ((x @ H) * x).sum(-1) / 2 + x @ c, np.zeros(d), delta, S, 2000, seed) - c
    bound = (smooth * delta) ** 2 * d + ((smooth * delta) ** 2 * (d + 6) ** 3 / 2 + 2 * (d + 4) * (c**2).sum()) / S
    assert (off**2).sum(1).mean() <= bound


def test_the_perturbation_named_beside_18_is_not_where_its_bound_is_least():
    smooth, sigma, S = 2.0, 0.3, 16

    def bound(delta):
        return smooth**2 * delta**2 / 4 + sigma**2 / (S * delta**2)

    named, least = ((k * sigma**2 / (smooth**2 * S)) ** 0.25 for k in (2, 4))
    assert bound(least) < bound(named)
    assert abs(bound(least) - min(bound(np.linspace(0.01, 2, 100_000)))) < 1e-6


def projected(x):
    """(n,) nearest point of the simplex [Held1974]."""
    ordered = np.sort(x)[::-1]
    over = (ordered.cumsum() - 1) / np.arange(1, len(x) + 1)
    return np.maximum(x - over[np.flatnonzero(ordered > over)[-1]], 0)


def printed_step(x, slope):
    """Algorithm 1: a step, then softmax of what it gives."""
    return torch.softmax(torch.tensor(x - slope), 0).numpy()


def test_19_fails_for_short_steps_and_for_algorithm_1():
    # F = l ‖x‖² / 2, kappa = l: the bound is 0 after one step, of any eta <= 1 / l
    x = np.ones(2)
    x = x - 0.1 * x
    assert (x**2).sum() > 0
    # F = ‖x - e‖² / 2 has its optimum in the corner e, which softmax of a bounded step cannot come near
    corner, x = np.array([1.0, 0.0, 0.0]), np.full(3, 1 / 3)
    for _ in range(200):
        x = printed_step(x, x - corner)
    assert ((x - corner) ** 2).sum() > 0.2 > (1 - 0.5) ** 200


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 1.0]))
def test_19_mended_projected_descent_contracts_by_one_minus_kappa_eta(seed, part):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((4, 4))
    H, c = root @ root.T + 0.1 * np.eye(4), 3 * rng.standard_normal(4)
    curvature = np.linalg.eigvalsh(H)
    optimum = np.full(4, 0.25)
    for _ in range(3000):
        optimum = projected(optimum - (H @ optimum + c) / curvature[-1])
    eta, x = part / curvature[-1], np.full(4, 0.25)
    first = ((x - optimum) ** 2).sum()
    for k in range(1, 60):
        x = projected(x - eta * (H @ x + c))
        assert ((x - optimum) ** 2).sum() <= (1 - curvature[0] * eta) ** k * first + 1e-12


def test_20_fails_where_the_gradient_at_the_optimum_is_not_zero():
    """A linear F on the simplex, without noise: its gradient is c everywhere, and the bound falls as 1 / k."""
    c, x, k, eta = np.array([1.0, 2.0, 4.0]), np.full(3, 1 / 3), 1000, 1.0
    squares, start = [], c @ x
    for _ in range(k):
        squares.append((c**2).sum())
        x = printed_step(x, eta * c)
    assert np.mean(squares) > 100 * (2 * (start - c.min()) / (eta * k))


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_20_mended_by_the_projected_gradient(seed):
    """(1/k) Σ ‖G‖² <= 2 (F(x0) - F_inf) / (eta k), G = (x - P(x - eta ∇F(x))) / eta, without convexity."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((4, 4))
    H, c = H + H.T, rng.standard_normal(4)
    eta = 1 / np.abs(np.linalg.eigvalsh(H)).max()

    def value(x):
        return x @ H @ x / 2 + c @ x

    x = np.full(4, 0.25)
    squares, values = [], [value(x)]
    for _ in range(300):
        after = projected(x - eta * (H @ x + c))
        squares.append((((x - after) / eta) ** 2).sum())
        x = after
        values.append(value(x))
    bounds = 2 * (values[0] - min(values)) / (eta * np.arange(1, 301))
    assert (np.cumsum(squares) / np.arange(1, 301) <= bounds + 1e-12).all()

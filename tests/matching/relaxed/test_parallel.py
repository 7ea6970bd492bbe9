"""Parallel execution: the curve, local optima, and three gradients side by side."""

import torch
from matching.instances import rounds

from mfcp.matching import SpeedUp, Unrolled, ZerothOrder, relaxed_solution
from mfcp.matching.relaxed.objective import relaxed_objective, smooth_makespan, smooth_parallel_makespan

CURVE = SpeedUp([0.6, 0.7, 0.8], 2.0)


def test_no_gain_is_the_convex_problem():
    T, A, gamma = rounds(3, 5, 4)
    X = relaxed_solution(T, A, gamma, 5.0, 0.1, 0.05).X
    local = relaxed_solution(T, A, gamma, 5.0, 0.1, 0.05, speedup=SpeedUp(1.0), restarts=2).require()
    assert (local.X - X).abs().max() < 1e-6
    assert torch.allclose(smooth_parallel_makespan(X, T, 5.0, SpeedUp(1.0)), smooth_makespan(X, T, 5.0))


def test_restarts_never_hurt_and_the_result_is_stationary():
    T, A, gamma = rounds(3, 5, 16, seed=3)
    values = []
    curve, weights = SpeedUp(0.5, 1.0), (20.0, 0.01, 0.02)
    for restarts in (1, 8):
        found = relaxed_solution(T, A, gamma, *weights, speedup=curve, restarts=restarts).require()
        values.append(relaxed_objective(found.X, T, A, gamma, *weights, curve))
        assert (found.X.sum(1) - 1).abs().max() < 1e-12
    assert (values[1] <= values[0] + 1e-9).all()
    assert (values[1] < values[0] - 1e-4).any()


def three_gradients(beta, lam, tau, samples):
    T, A, gamma = rounds(3, 4, 6, seed=3, spread=0.3)
    T = T / 2
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    results = []
    for rule in (None, Unrolled(steps=1500), ZerothOrder(samples=samples, delta=1e-3)):
        t = T.clone().requires_grad_()
        found = relaxed_solution(t, A, gamma, beta, lam, tau, speedup=CURVE, gradient=rule, restarts=1).require()
        results.append((found.X.detach(), *torch.autograd.grad((found.X * G).sum(), t)))
    return results


def test_three_gradients_agree_at_a_local_optimum():
    (X, implicit), (Y, unrolled), (_, estimate) = three_gradients(2.0, 0.3, 0.3, samples=600)
    same = (X - Y).abs().amax((1, 2)) < 1e-6
    assert same.sum() >= 5  # descent may end in another optimum
    assert (implicit - unrolled)[same].abs().max() < 1e-4 * implicit.abs().max()
    assert torch.cosine_similarity(implicit.flatten(), estimate.flatten(), dim=0) > 0.9


def test_implicit_equals_differences_along_the_branch():
    T, A, gamma = rounds(3, 5, 8, seed=3)
    weights = (10.0, 0.03, 0.05)
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    v = T * torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    t = T.clone().requires_grad_()
    base = relaxed_solution(t, A, gamma, *weights, speedup=CURVE)
    (grad,) = torch.autograd.grad((base.X * G).sum(), t)

    def value(h):
        return (relaxed_solution(T + h * v, A, gamma, *weights, speedup=CURVE, start=base).X * G).sum((1, 2))

    exact = (grad * v).sum((1, 2))
    error = ((value(1e-4) - value(-1e-4)) / 2e-4 - exact).abs() / exact.abs().clamp_min(0.1)
    assert error.max() < 1e-5

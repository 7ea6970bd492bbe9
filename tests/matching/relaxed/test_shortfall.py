"""The relaxed plan with priced shortfall: against its optimality conditions, BFGS, differences, limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matching.instances import rounds
from scipy.optimize import minimize

from mfcp.errors import SettingsError
from mfcp.matching import relaxed_matching, relaxed_solution
from mfcp.matching.normal import expected_shortfall
from mfcp.matching.relaxed.gradients import ZerothOrder
from mfcp.matching.relaxed.objective import smooth_makespan
from mfcp.matching.relaxed.shortfall import Shortfall
from mfcp.matching.speedup import SpeedUp

BETA, TAU = 40.0, 0.01
PAID = Shortfall(price=4.0, q=0.02)


def plan(T, A, gamma, shortfall=PAID, **options):
    return relaxed_solution(T, A, gamma, BETA, 1.0, TAU, shortfall=shortfall, **options)


def objective(X, T, A, gamma, shortfall=PAID):
    """(...) seconds: what the plan minimises, written from its formula."""
    u = (X * A).sum((-2, -1)) / X.shape[-1]
    charge = shortfall.price * expected_shortfall(u - gamma, torch.as_tensor(shortfall.q, dtype=u.dtype))
    return smooth_makespan(X, T, BETA) + charge + TAU * torch.xlogy(X, X).sum((-2, -1))


def slope(X, T, A, gamma, shortfall=PAID):
    """(B, M, N) deviation of the gradient of the objective from its column means, by autograd."""
    at = X.detach().requires_grad_()
    (found,) = torch.autograd.grad(objective(at, T, A, gamma, shortfall).sum(), at)
    return found - (X * found).sum(1, keepdim=True)


@pytest.mark.parametrize(("M", "N"), [(3, 5), (5, 20), (10, 100)])
@pytest.mark.parametrize("backend", ["torch", "compiled"])
@pytest.mark.parametrize(("price", "q"), [(4.0, 0.02), (0.3, 0.05), (30.0, 0.1), (4.0, 1e-3), (20.0, 1e-4)])
def test_plans_are_optimal_whatever_price_and_deviation(M, N, backend, price, q):
    T, A, gamma = rounds(M, N, 6, seed=N)
    gamma = gamma + torch.linspace(-0.3, 0.3, 6, dtype=torch.float64) * gamma.new_tensor([1, 1, 0, 0, 1, 1])
    gamma = gamma.clamp(0.0, 1.0)  # far below what is met for nothing, at the edge, and out of reach
    shortfall = Shortfall(price, q)
    found = plan(T, A, gamma, shortfall, backend=backend)
    assert found.converged.all()
    scale = 1.0 + price / N
    used = found.X > 1e-200
    assert torch.where(used, slope(found.X, T, A, gamma, shortfall), 0.0).abs().max() < 1e-6 * scale
    np.testing.assert_allclose(found.X.sum(1), 1.0, atol=1e-12)


def test_a_general_solver_finds_the_same_plan():
    T, A, gamma = rounds(3, 5, 4, seed=1)
    found = plan(T, A, gamma)
    least = objective(found.X, T, A, gamma)

    for b in range(4):

        def value(flat, b=b):
            logits = torch.tensor(flat).reshape(3, 5).requires_grad_()
            X = torch.softmax(logits, 0)
            cost = objective(X, T[b], A[b], gamma[b])
            cost.backward()
            return cost.item(), logits.grad.numpy().ravel()

        other = minimize(value, np.zeros(15), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
        assert least[b] <= other.fun + 1e-10
        np.testing.assert_allclose(other.fun, least[b], rtol=1e-3)  # BFGS creeps where X is near 0
        np.testing.assert_allclose(torch.softmax(torch.tensor(other.x).reshape(3, 5), 0), found.X[b], atol=0.1)


@pytest.mark.parametrize("backend", ["torch", "compiled"])
@pytest.mark.parametrize("above", [-0.05, 0.0, 0.4])
def test_derivatives_agree_with_differences(backend, above):
    T, A, gamma = rounds(3, 5, 2, seed=2)
    T, A = T.requires_grad_(), A.requires_grad_()

    def solved(T, A):
        return plan(T, A, (gamma + above).clamp(0, 1), backend=backend).X

    assert torch.autograd.gradcheck(solved, (T, A), eps=1e-6, atol=1e-5, rtol=1e-5, fast_mode=backend == "torch")


def test_a_small_deviation_is_the_hard_penalty():
    """price · max(0, gamma - u): its plan is the free one where that meets gamma, and pays no more than the price."""
    T, A, gamma = rounds(3, 6, 8, seed=3)
    hard = Shortfall(5.0, 1e-6)
    found = plan(T, A, gamma, hard)
    free = plan(T, A, torch.zeros_like(gamma), hard)
    assert found.converged.all()
    assert (found.q <= 5.0 * (1 + 1e-9)).all()
    u = (found.X * A).sum((1, 2)) / 6
    between = (found.q > 1e-6) & (found.q < 4.999)
    assert between.any()
    np.testing.assert_allclose(u[between], gamma[between], atol=1e-5)  # the kink holds such a plan
    met = (free.X * A).sum((1, 2)) / 6 > gamma + 1e-4
    np.testing.assert_allclose(found.X[met], free.X[met], atol=1e-6)


def test_masks_batches_starts_and_out_of_reach():
    T, A, gamma = rounds(3, 6, 8, seed=4)
    mask = torch.rand(T.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    mask[:, 0] = True
    shaped = [value.reshape(2, 4, *value.shape[1:]) for value in (T, A, gamma, mask)]
    prices = torch.linspace(0.5, 8.0, 8, dtype=torch.float64)
    found = plan(*shaped[:3], Shortfall(prices.reshape(2, 4), 0.02), allowed=shaped[3])
    assert found.converged.all()
    assert (found.X[~shaped[3]] == 0).all()
    for b in range(8):
        alone = plan(T[b], A[b], gamma[b], Shortfall(prices[b], 0.02), allowed=mask[b])
        np.testing.assert_allclose(found.X.reshape(8, 3, 6)[b], alone.X, atol=1e-8)
    again = plan(*shaped[:3], Shortfall(prices.reshape(2, 4), 0.02), allowed=shaped[3], start=found)
    np.testing.assert_allclose(again.X, found.X, atol=1e-8)
    assert plan(T, A, torch.ones_like(gamma)).converged.all()  # gamma 1 is out of reach


def test_it_pays_more_where_the_price_is_higher():
    T, A, gamma = rounds(3, 6, 8, seed=5)
    u = [(plan(T, A, gamma, Shortfall(price, 0.02)).X * A).sum((1, 2)) / 6 for price in (0.1, 1.0, 10.0)]
    assert (u[0] < u[1]).all()
    assert (u[1] < u[2]).all()


def test_what_it_refuses():
    T, A, gamma = rounds(3, 5, 2)
    for bad in (Shortfall(0.0, 0.1), Shortfall(1.0, math.inf), Shortfall(1.0, torch.ones(3)), replace(PAID, q=-1.0)):
        with pytest.raises(SettingsError, match="shortfall"):
            plan(T, A, gamma, bad)
    with pytest.raises(SettingsError, match="speedup"):
        plan(T, A, gamma, speedup=SpeedUp())
    with pytest.raises(SettingsError, match="zeroth_order"):
        relaxed_matching(T.requires_grad_(), A, gamma, BETA, 1.0, TAU, shortfall=PAID, gradient=ZerothOrder())

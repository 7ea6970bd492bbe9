"""The rows that follow the paper to the letter, and their derivatives against dense and sampled ones."""

from dataclasses import replace

import pytest
import torch
from matching.instances import rounds as instances

from mfcp.matching.reference.literal import (
    PRINTED_STEPS,
    forward_responses,
    printed_problem,
    printed_response,
    printed_slope,
    softmax_descent,
)


@pytest.fixture
def problem():
    return drawn(-0.1)


def drawn(above):
    """Rounds whose gamma is so far above one that a plan in the middle reaches."""
    T, A, gamma = instances(3, 5, 6)
    return printed_problem(T / 10, A, gamma + above, 3.0, 0.01)


def test_algorithm_1_has_come_to_rest_by_the_steps_it_is_given(problem):
    now, later = (softmax_descent(problem, steps=steps) for steps in (PRINTED_STEPS, 10 * PRINTED_STEPS))
    assert (now - later).abs().max() < 1e-6


@pytest.mark.parametrize("above", [-0.1, 0.2])  # in the second no plan reaches gamma: the barrier's tangent
def test_the_printed_system_is_solved_in_the_least_squares_sense(above):
    problem = drawn(above)
    X = softmax_descent(problem)
    G = torch.randn(X.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dT, dA = printed_response(problem, X, G)
    M, N = X.shape[1:]
    B = torch.eye(N, dtype=torch.float64).repeat(1, M)
    for b in range(len(X)):
        one = problem.take(b)

        def slope(plan, T=one.T, A=one.A, one=one):
            return printed_slope(replace(one, T=T, A=A), plan.reshape(1, M, N)).flatten()

        H = torch.autograd.functional.jacobian(slope, X[b].flatten())
        zero = torch.zeros(N, N, dtype=torch.float64)
        system = torch.cat([torch.cat([H, B.T], 1), torch.cat([B, zero], 1)])
        right = torch.cat([G[b].flatten(), torch.zeros(N, dtype=torch.float64)])
        adjoint = (torch.linalg.pinv(system, rcond=1e-9) @ right)[: M * N]
        in_T = torch.autograd.functional.jacobian(lambda T, b=b: slope(X[b], T=T), one.T)
        in_A = torch.autograd.functional.jacobian(lambda A, b=b: slope(X[b], A=A), one.A)
        for mine, jacobian in ((dT[b], in_T), (dA[b], in_A)):
            wanted = -(adjoint @ jacobian.reshape(M * N, M * N)).reshape(M, N)
            assert mine == pytest.approx(wanted, rel=1e-5, abs=1e-7 * float(wanted.abs().max()))


def test_the_forward_estimate_tends_to_the_derivative_of_algorithm_1(problem):
    G = torch.randn(problem.T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    own = torch.zeros_like(problem.T, dtype=torch.bool)
    own[:, 1] = True
    T, A = problem.T.clone().requires_grad_(), problem.A.clone().requires_grad_()
    X = softmax_descent(replace(problem, T=T, A=A), steps=PRINTED_STEPS)
    exact = torch.autograd.grad((X * G).sum(), (T, A))
    generator = torch.Generator().manual_seed(1)
    found = forward_responses(problem, X.detach(), G, own, samples=4000, delta=1e-5, generator=generator)
    for estimate, true in zip(found, exact, strict=True):
        assert (estimate[:, [0, 2]] == 0).all()
        assert torch.cosine_similarity(estimate[:, 1], true[:, 1], dim=1).min() > 0.97


def test_a_pair_that_may_not_be_chosen_has_no_share_and_no_derivative():
    T, A, gamma = instances(3, 5, 6)
    allowed = torch.ones_like(T, dtype=torch.bool)
    allowed[:, 0, :2] = False
    problem = printed_problem(T / 10, A, gamma - 0.3, 3.0, 0.01, allowed)
    X = softmax_descent(problem)
    assert (X[:, 0, :2] == 0).all()
    assert torch.allclose(X.sum(1), torch.ones(6, 5, dtype=torch.float64))
    dT, dA = printed_response(problem, X, torch.ones_like(X) * torch.arange(5))
    assert torch.isfinite(dT).all()
    assert torch.isfinite(dA).all()

"""Solving a batch of rounds: starts, failures and dimensions of each round by itself."""

import pytest
import torch
from matching.instances import rounds

from mfcp.errors import InfeasibleError, SolverError
from mfcp.matching import Status, relaxed_matching, relaxed_solution
from mfcp.matching.kernels.tuning import PATIENCE

ENGINES = ["torch", "compiled"]
WEIGHTS = {"beta": 5.0, "lam": 0.1, "tau": 0.01}


def test_bad_rounds_do_not_touch_the_others():
    T, A, gamma = rounds(3, 5, 6)
    alone = relaxed_matching(T, A, gamma, **WEIGHTS)
    gamma = gamma.clone()
    gamma[2] = 0.999
    for backend in ENGINES:
        t, a = T.clone().requires_grad_(), A.clone().requires_grad_()
        found = relaxed_solution(t, a, gamma, **WEIGHTS, backend=backend)
        others = [0, 1, 3, 4, 5]
        assert found.status.tolist() == [0, 0, Status.INFEASIBLE, 0, 0, 0]
        assert torch.allclose(found.X[others], alone[others], atol=1e-9)
        assert torch.equal(found.X[2].argmax(0), A[2].argmax(0))
        found.X.square().sum().backward()
        assert torch.equal(t.grad[2], torch.zeros(3, 5, dtype=torch.float64))
        assert t.grad.isfinite().all()
        assert a.grad.isfinite().all()
        assert t.grad[others].abs().amax((1, 2)).min() > 0
        with pytest.raises(InfeasibleError, match=r"round 2 .*reliability 0\.8.*gamma 0\.999"):
            found.require()


@pytest.mark.parametrize("backend", ENGINES)
def test_a_round_that_does_not_converge_is_a_status_and_carries_no_gradient(backend, monkeypatch):
    monkeypatch.setattr("mfcp.matching.relaxed.argmin.FLOOR", 0.0)  # nothing is good enough
    T, A, gamma = rounds(3, 5, 2)
    T = T.requires_grad_()
    found = relaxed_solution(T, A, gamma, **WEIGHTS, backend=backend)
    assert found.status.tolist() == [Status.STEP_LIMIT] * 2
    assert torch.allclose(found.X.sum(1), torch.ones(2, 5, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(found.X.square().sum(), T)
    assert torch.equal(gradient, torch.zeros_like(gradient))
    with pytest.raises(SolverError, match=r"round 0 .*raise max_steps"):
        found.require()


def test_a_warm_start_saves_steps_and_changes_nothing():
    T, A, gamma = rounds(5, 20, 8)
    cold = relaxed_solution(T, A, gamma, **WEIGHTS)
    for backend in ENGINES:
        warm = relaxed_solution(T * 1.001, A, gamma, **WEIGHTS, start=cold, backend=backend).require()
        fresh = relaxed_solution(T * 1.001, A, gamma, **WEIGHTS)
        assert (warm.X - fresh.X).abs().max() < 1e-7
        assert warm.steps.double().mean() < 0.5 * fresh.steps.double().mean()


def test_a_start_that_is_far_off_costs_three_steps():
    """Plans at a low temperature: with times that differ by a tenth, Newton's method on the prices would cycle."""
    T, A, gamma = rounds(3, 5, 200)
    weights = {"beta": 40.0, "lam": 0.003, "tau": 0.003}
    before = relaxed_solution(T, A, gamma, **weights)
    noise = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    other = T * (0.1 * noise).exp()
    fresh = relaxed_solution(other, A, gamma, **weights)
    for backend in ENGINES:
        found = relaxed_solution(other, A, gamma, **weights, start=before, backend=backend).require()
        assert (found.X - fresh.X).abs().max() < 1e-6
        assert (found.steps - fresh.steps).double().mean() < 4
        given_up = found.steps == fresh.steps + PATIENCE
        assert given_up.double().mean() > 0.5
        assert torch.equal(found.X[given_up], fresh.X[given_up]) or backend == "torch"


def test_leading_dimensions_and_per_round_weights():
    T, A, gamma = rounds(3, 5, 6)
    beta = torch.linspace(2.0, 20.0, 6, dtype=torch.float64)
    flat = relaxed_solution(T, A, gamma, beta, 0.1, 0.01)
    grid = relaxed_solution(
        T.reshape(2, 3, 3, 5), A.reshape(2, 3, 3, 5), gamma.reshape(2, 3), beta.reshape(2, 3), 0.1, 0.01
    )
    assert grid.X.shape == (2, 3, 3, 5)
    assert grid.p.shape == (2, 3, 3)
    assert grid.status.shape == (2, 3)
    assert torch.equal(grid.X.reshape(6, 3, 5), flat.X)
    one = relaxed_solution(T[4], A[4], float(gamma[4]), float(beta[4]), 0.1, 0.01)
    assert one.X.shape == (3, 5)
    assert one.status.shape == ()
    assert torch.allclose(one.X, flat.X[4], atol=1e-12)

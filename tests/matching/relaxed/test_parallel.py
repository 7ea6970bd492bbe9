"""Parallel execution: the curve, local optima, and three gradients side by side."""

import numpy as np
import pytest
import torch
from matching.instances import rounds

from mfcp.errors import DataError, SettingsError
from mfcp.matching import MatchingProblem, SpeedUp, Unrolled, ZerothOrder, relaxed_solution, solve
from mfcp.matching.relaxed.objective import relaxed_objective, smooth_makespan, smooth_parallel_makespan

CURVE = SpeedUp([0.6, 0.7, 0.8], 2.0)


def test_the_curve_is_one_for_one_task_and_decays_to_its_floor():
    curve = SpeedUp()
    n = np.array([[0.0], [1.0], [2.0], [1e9]])
    assert curve(n)[:2].tolist() == [[1.0], [1.0]]
    assert 0.6 < curve(n)[2, 0] < 1
    assert curve(n)[3, 0] == pytest.approx(0.6)
    assert np.allclose(curve(torch.tensor(n)).numpy(), curve(n))
    h = 1e-6
    at = np.array([[1.5, 3.0, 7.0]])
    assert np.allclose((CURVE(at + h) - CURVE(at - h)) / (2 * h), CURVE.slope(at), atol=1e-8)
    assert np.allclose((CURVE.slope(at + h) - CURVE.slope(at - h)) / (2 * h), CURVE.bend(at), atol=1e-8)
    assert CURVE.slope(np.array([[0.5, 1.0, 0.0]])).tolist() == [[0.0, 0.0, 0.0]]


def test_the_table_feeds_the_exact_solver():
    T, A, gamma = rounds(3, 5, 2)
    table = CURVE.table(3, 5)
    assert table.shape == (3, 6)
    assert (np.diff(table[:, 1:]) < 0).all()
    side_by_side = solve(MatchingProblem(T.numpy(), A.numpy(), gamma.numpy(), zeta=table))
    one_by_one = solve(MatchingProblem(T.numpy(), A.numpy(), gamma.numpy()))
    assert (side_by_side.makespan <= one_by_one.makespan).all()
    assert (side_by_side.makespan < one_by_one.makespan).any()


def test_fit_recovers_the_curve():
    rng = np.random.default_rng(0)
    n, cluster = np.tile(np.arange(1.0, 9.0), 30), np.repeat([0, 1, 2], 80)
    multiplier = CURVE.table(3, 8)[cluster, n.astype(int)] * (1 + 0.01 * rng.standard_normal(240))
    found = SpeedUp.fit(n, multiplier, cluster)
    assert np.allclose(found.table(3, 8), CURVE.table(3, 8), rtol=0.02)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SpeedUp(0.0), SettingsError, "floor"),
        (lambda: SpeedUp(0.6, -1.0), SettingsError, "decay"),
        (lambda: SpeedUp.fit([1, 2], [1.0]), DataError, "one length"),
        (lambda: SpeedUp.fit([0.5, 2], [1.0, 0.9]), DataError, "n >= 1"),
        (lambda: SpeedUp.fit([2, 2], [0.9, 0.9]), DataError, "two different n"),
        (lambda: SpeedUp.fit([], []), DataError, "no co-location"),
        (
            lambda: relaxed_solution(*rounds(4, 5, 2), 5.0, 0.1, 0.1, speedup=CURVE),
            SettingsError,
            "for 3 clusters, T has 4",
        ),
    ],
)
def test_bad_curves_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


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


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 5, 16), (4, 9, 6)], ids=str)
def test_backends_find_the_same_local_optima(shape, masked):
    T, A, gamma = rounds(*shape, seed=4, tight=0.4)
    allowed = torch.rand(T.shape, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    if masked:
        allowed[:, 0] = True
        gamma = torch.minimum(gamma, A.masked_fill(~allowed, 0).amax(1).mean(1) - 0.01)
    found = [
        relaxed_solution(
            T, A, gamma, 20.0, 0.01, 0.03, speedup=SpeedUp(0.6, 1.5), allowed=allowed, restarts=3, backend=backend
        ).require()
        for backend in ("torch", "compiled")
    ]
    for name in ("X", "p", "q", "status"):
        assert torch.allclose(*(getattr(one, name).double() for one in found), rtol=1e-5, atol=1e-7), name
    if masked:
        assert (found[1].X[~allowed] == 0).all()


def test_a_warm_start_stays_on_its_branch_under_both_backends():
    T, A, gamma = rounds(3, 5, 8, seed=3)
    base = relaxed_solution(T, A, gamma, 10.0, 0.03, 0.05, speedup=CURVE)
    cold = base.steps
    for backend in ("torch", "compiled"):
        near = relaxed_solution(T * 1.001, A, gamma, 10.0, 0.03, 0.05, speedup=CURVE, start=base, backend=backend)
        assert (near.require().X - base.X).abs().max() < 0.05
        assert (near.steps < cold).all()


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

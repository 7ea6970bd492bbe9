"""The relaxed plan: optimal by independent measures, at every edge, whatever else is in the batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.instances import relative_kkt, rounds

from mfcp.errors import DataError, SettingsError
from mfcp.matching import MatchingProblem, relaxed_matching, relaxed_solution, solve
from mfcp.matching.relaxed.objective import relaxed_objective, relaxed_regret

ENGINES = ["torch", "compiled"]
WEIGHTS = {"beta": 5.0, "lam": 0.1, "tau": 0.01}


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("shape", [(3, 5, 64), (5, 20, 64), (10, 100, 16), (20, 500, 4)], ids=str)
def test_optimality_holds_to_1e_9(shape, backend):
    T, A, gamma = rounds(*shape)
    found = relaxed_solution(T, A, gamma, **WEIGHTS, backend=backend).require()
    assert relative_kkt(T, A, found.X, gamma, **WEIGHTS).max() < 1e-9
    assert (found.X.sum(1) - 1).abs().max() < 1e-12
    assert found.X.min() >= 0


@pytest.mark.parametrize("shape", [(3, 5), (5, 20)], ids=str)
def test_plan_agrees_with_cvxpy(shape):
    cvxpy = pytest.importorskip("cvxpy")
    T, A, gamma = rounds(*shape, 1, seed=3)
    X = cvxpy.Variable(shape, nonneg=True)
    load = cvxpy.sum(cvxpy.multiply(T[0].numpy(), X), axis=1)
    margin = cvxpy.sum(cvxpy.multiply(A[0].numpy(), X)) / shape[1] - float(gamma)
    cost = cvxpy.log_sum_exp(5.0 * load) / 5.0 - 0.1 * cvxpy.log(margin) - 0.05 * cvxpy.sum(cvxpy.entr(X))
    cvxpy.Problem(cvxpy.Minimize(cost), [cvxpy.sum(X, axis=0) == 1]).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    ours = relaxed_matching(T, A, gamma, 5.0, 0.1, 0.05)[0]
    assert np.abs(ours.numpy() - X.value).max() < 1e-5
    assert float(relaxed_objective(ours, T[0], A[0], gamma[0], 5.0, 0.1, 0.05)) <= cost.value + 1e-9


def test_equal_clusters_share_equally():
    T, A = torch.full((4, 6), 2.0, dtype=torch.float64), torch.full((4, 6), 0.9, dtype=torch.float64)
    X = relaxed_matching(T, A, 0.8, 10.0, 0.1, 0.01)
    assert (X - 0.25).abs().max() < 1e-9


def test_one_cluster_takes_everything():
    X = relaxed_matching(
        torch.ones(1, 3, dtype=torch.float64), torch.full((1, 3), 0.9, dtype=torch.float64), 0.8, **WEIGHTS
    )
    assert torch.equal(X, torch.ones(1, 3, dtype=torch.float64))


def test_a_hundred_thousand_tasks():
    T, A, gamma = rounds(4, 100_000, 1)
    found = relaxed_solution(T, A, gamma, 10.0, 0.1, 1e-3).require()
    assert found.residual.max() < 1e-9


def test_memory_is_at_most_six_copies_of_the_times():
    from benchmarks.memory import copies

    assert copies(8, 250_000, 1) <= 6.0


def test_masks_give_exact_zeros():
    T, A, gamma = rounds(4, 6, 3)
    allowed = torch.ones(3, 4, 6, dtype=torch.bool)
    allowed[0, 1, 2] = allowed[1, :3, 0] = allowed[2, 3] = False
    poisoned = T.masked_fill(~allowed, torch.nan).requires_grad_()
    gamma = torch.minimum(gamma, A.masked_fill(~allowed, 0).amax(1).mean(1) - 0.02)
    X = relaxed_matching(poisoned, A, gamma, **WEIGHTS, allowed=allowed)
    assert (X[~allowed] == 0).all()
    assert torch.allclose(X[1, 3, 0], torch.ones((), dtype=torch.float64))
    (gradient,) = torch.autograd.grad(X.square().sum(), poisoned)
    assert (gradient[~allowed] == 0).all()
    assert gradient.isfinite().all()


@st.composite
def small(draw):
    M, N = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    T, A, gamma = rounds(M, N, 1, seed=draw(st.integers(0, 10_000)), edge=draw(st.sampled_from([0.02, 0.1])))
    return T[0], A[0], gamma[0].clamp_min(0.0), draw(st.sampled_from([2.0, 30.0])), draw(st.sampled_from([0.1, 0.01]))


@settings(max_examples=40)
@given(small(), st.randoms(use_true_random=False), st.sampled_from([1e-3, 7.0, 1e4]))
def test_invariants(problem, random, unit):
    T, A, gamma, beta, tau = problem
    X = relaxed_matching(T, A, gamma, beta, 0.05, tau)
    assert (X.sum(0) - 1).abs().max() < 1e-12
    assert X.min() >= 0
    assert float((X * A).sum() / T.shape[1]) > gamma  # Theorem 2
    clusters, tasks = list(range(T.shape[0])), list(range(T.shape[1]))
    random.shuffle(clusters)
    random.shuffle(tasks)
    moved = relaxed_matching(T[clusters][:, tasks], A[clusters][:, tasks], gamma, beta, 0.05, tau)
    assert (moved - X[clusters][:, tasks]).abs().max() < 1e-6
    scaled = relaxed_matching(T * unit, A, gamma, beta / unit, 0.05 * unit, tau * unit)
    assert (scaled - X).abs().max() < 1e-6


def test_sharp_weights_approach_the_linear_relaxation_from_above():
    T, A, gamma = rounds(3, 5, 4, seed=7)
    X = relaxed_matching(T, A, gamma, 200.0, 1e-4, 1e-4)
    integer = solve(MatchingProblem(T.numpy(), A.numpy(), gamma.numpy()))
    fractional = (T * X).sum(2).amax(1).numpy()
    assert (fractional <= integer.makespan + 0.02).all()  # relaxed: no worse than the best plan, but for smoothing
    assert (fractional >= 0.3 * integer.makespan).all()


def test_relaxed_regret_is_zero_at_the_truth_and_positive_elsewhere():
    T, A, gamma = rounds(3, 5, 8)
    best = relaxed_matching(T, A, gamma, 5.0, 0.1, 1e-5)
    assert relaxed_regret(best, best, T, A, gamma, 5.0, 0.1).abs().max() == 0
    wrong = relaxed_matching(T.flip(1), A, gamma, 5.0, 0.1, 1e-5)
    assert relaxed_regret(wrong, best, T, A, gamma, 5.0, 0.1).min() > 0
    worst = torch.nn.functional.one_hot(A.argmin(1), 3).transpose(1, 2).double()
    assert torch.isinf(relaxed_regret(worst, best, T, A, gamma, 5.0, 0.1)).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_the_same_plan_and_gradient():
    T, A, gamma = rounds(5, 20, 16)
    results = []
    for device in ("cpu", "cuda"):
        t, a = T.to(device).requires_grad_(), A.to(device).requires_grad_()
        found = relaxed_solution(t, a, gamma.to(device), **WEIGHTS)
        gradients = torch.autograd.grad(found.X.square().sum(), (t, a))
        results.append([value.cpu() for value in (found.X, *gradients)])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-8)


def test_default_weights_are_in_units_of_the_makespan():
    T, A, gamma = rounds(3, 5, 6)
    unit = T.amin(1).sum(1) / 3
    X = relaxed_matching(T, A, gamma)
    assert torch.allclose(X, relaxed_matching(T, A, gamma, 40.0 / unit, 0.003 * unit, 0.01 * unit))
    assert (relaxed_matching(T * 3600, A, gamma) - X).abs().max() < 1e-6
    allowed = torch.rand(T.shape, generator=torch.Generator().manual_seed(0)) < 0.8
    allowed[:, 0] = True
    least = T.masked_fill(~allowed, torch.inf).amin(1).sum(1) / 3
    weights = (40 / least, 0.003 * least, 0.01 * least)
    masked = relaxed_matching(T, A, 0.1, allowed=allowed)
    assert torch.allclose(masked, relaxed_matching(T, A, 0.1, *weights, allowed=allowed))
    assert relaxed_matching(0 * T, A, gamma).isfinite().all()  # a round without work has no scale
    for bad, message in ((T[0, 0], "shape"), (-T, r"T\[0, 0\] = -"), (T.long(), "int64"), (T[:, :2], "but A has")):
        with pytest.raises(DataError, match=message):
            relaxed_matching(bad, A, gamma)
    with pytest.raises(DataError, match="allowed must be boolean"):
        relaxed_matching(T, A, gamma, allowed=torch.ones(T.shape))
    with pytest.raises(SettingsError, match="lam and tau not given"):
        relaxed_matching(T, A, gamma, 5.0)


def test_the_derivative_without_weights_is_the_whole_one():
    T, A, gamma = rounds(3, 4, 1)
    T, A = (100 * T).requires_grad_(), A.requires_grad_()
    torch.autograd.gradcheck(lambda T, A: relaxed_matching(T, A, gamma), (T, A), eps=1e-6, atol=1e-5, rtol=1e-3)
    (slope,) = torch.autograd.grad((relaxed_matching(T, A, gamma) * A.detach()).sum(), T)
    assert (slope * T).sum().abs() < 1e-8  # longer by one factor is the same problem

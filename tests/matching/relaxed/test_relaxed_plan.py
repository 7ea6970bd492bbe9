"""The relaxed plan: optimal by independent measures, at every edge, whatever else is in the batch."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.instances import relative_kkt, rounds

from mfcp.errors import DataError, InfeasibleError, SettingsError, SolverError
from mfcp.matching import MatchingProblem, Status, relaxed_matching, relaxed_solution, solve
from mfcp.matching.relaxed.objective import relaxed_objective, relaxed_regret, smooth_makespan

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


EDGES = [None, 1e-2, 1e-4, 1e-6]


def tight_rounds(shape, edge):
    T, A, gamma = rounds(*shape, seed=1, edge=edge, tight=0.5)
    keep = A.amax(1).mean(1) - gamma > 1e-9  # one cluster: its reliability is the edge
    return T[keep], A[keep], gamma[keep]


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("shape", [(1, 4, 2), (4, 1, 4), (3, 5, 8), (5, 20, 4), (10, 100, 2)], ids=str)
def test_extremes_converge(shape, edge):
    T, A, gamma = tight_rounds(shape, edge)
    grid = torch.cartesian_prod(
        torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64),
        *2 * [torch.tensor([1e-1, 1e-3, 1e-6], dtype=torch.float64)],
    )
    times = len(grid)
    beta, lam, tau = (column.repeat_interleave(len(T)) for column in grid.T)
    T, A, gamma = T.repeat(times, 1, 1), A.repeat(times, 1, 1), gamma.repeat(times)
    found = relaxed_solution(T, A, gamma, beta, lam, tau)
    corner = (lam == 1e-6) & (tau == 1e-6)
    assert found.converged[~corner].all()
    assert found.residual[found.converged].max() < 1e-7
    assert found.residual.median() < 1e-10


@pytest.mark.parametrize("shape", [(1, 4, 64), (4, 1, 64), (3, 5, 64), (5, 20, 64), (10, 100, 8)], ids=str)
def test_where_both_weights_are_tiny_nearly_every_round_converges(shape):
    """Some of these rounds are beyond double precision; which ones depends on the processor, so many are drawn."""
    converged = [
        relaxed_solution(*tight_rounds(shape, edge), beta, 1e-6, 1e-6).converged
        for edge in EDGES
        for beta in (1.0, 10.0, 100.0)
    ]
    assert torch.cat(converged).double().mean() > 0.9


def test_the_open_failure_converges():
    T, A, gamma = rounds(10, 100, 8, edge=1e-4)
    for backend in ENGINES:
        found = relaxed_solution(T, A, gamma, 10.0, 0.1, 0.01, backend=backend).require()
        assert relative_kkt(T, A, found.X, gamma, 10.0, 0.1, 0.01).max() < 1e-9
        assert found.residual.max() < 1e-9


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_no_vertex_is_taken_for_the_optimum(backend, share):
    """Times that differ a hundredfold under sharp weights: at many a vertex the used entries agree with each other."""
    rng = np.random.default_rng(0)
    T, A = np.exp(1.2 * rng.standard_normal((600, 3, 4))), rng.integers(2, 7, (600, 3, 4)) / 6
    allowed = rng.random(T.shape) < share
    np.put_along_axis(allowed, rng.integers(3, size=(600, 1, 4)), True, axis=1)
    T /= np.where(allowed, T, np.inf).min(1).sum(1)[:, None, None] / 3
    A = np.where(allowed, A, 0.0)
    T, A, mask = torch.tensor(np.where(allowed, T, 1.0)), torch.tensor(A), torch.tensor(allowed)
    gamma = 0.9 * A.amax(1).mean(1)
    weights = {"beta": 500.0, "lam": 5e-4, "tau": 1e-3}
    found = relaxed_solution(T, A, gamma, **weights, allowed=mask, backend=backend).require()
    value = relaxed_objective(found.X, T, A, gamma, **weights)
    for plan in product(range(3), repeat=4):  # which only add a barrier to what they cost
        X = torch.nn.functional.one_hot(torch.tensor(plan), 3).T.double().expand_as(T)
        possible = (mask >= X).all((1, 2)) & ((A * X).sum((1, 2)) / 4 > gamma)
        there = relaxed_objective(X[possible], T[possible], A[possible], gamma[possible], **weights)
        assert (value[possible] <= there + 1e-9).all()
    assert relative_kkt(T, A, found.X, gamma, **weights, allowed=allowed).max() < 1e-8


@pytest.mark.parametrize("of", ["pairs", "tasks", "clusters"])
def test_times_over_eight_orders_of_magnitude(of):
    T, A, gamma = rounds(5, 20, 16, seed=2)
    shape = {"pairs": (16, 5, 20), "tasks": (16, 1, 20), "clusters": (16, 5, 1)}[of]
    T = T * 10 ** torch.tensor(np.random.default_rng(0).uniform(-4, 4, shape))
    for _ in range(2):  # weights in units of the makespan, or they mean nothing
        T = T / (T * relaxed_matching(T, A, gamma, 20.0, 1e-2, 1e-2)).sum(2).amax(1)[:, None, None]
    found = relaxed_solution(T, A, gamma, 40.0, 3e-3, 1e-2).require()
    assert found.residual.max() < 1e-9


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


@pytest.mark.parametrize("masked", [False, True])
def test_backends_agree(masked):
    T, A, gamma = rounds(4, 9, 32, seed=5)
    allowed = torch.rand(T.shape, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    if masked:
        allowed[:, 0] = True
        gamma = torch.minimum(gamma, A.masked_fill(~allowed, 0).amax(1).mean(1) - 0.01)
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for backend in ENGINES:
        t, a = T.clone().requires_grad_(), A.clone().requires_grad_()
        found = relaxed_solution(t, a, gamma, 20.0, 0.01, 0.02, allowed=allowed, backend=backend)
        results.append((found.X, found.p, found.q, found.status, *torch.autograd.grad((found.X * G).sum(), (t, a))))
    for name, one, other in zip(("X", "p", "q", "status", "dT", "dA"), *results, strict=True):
        assert torch.allclose(one.double(), other.double(), rtol=1e-6, atol=1e-8), name


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


def test_a_warm_start_saves_steps_and_changes_nothing():
    T, A, gamma = rounds(5, 20, 8)
    cold = relaxed_solution(T, A, gamma, **WEIGHTS)
    for backend in ENGINES:
        warm = relaxed_solution(T * 1.001, A, gamma, **WEIGHTS, start=cold, backend=backend).require()
        fresh = relaxed_solution(T * 1.001, A, gamma, **WEIGHTS)
        assert (warm.X - fresh.X).abs().max() < 1e-7
        assert warm.steps.double().mean() < 0.5 * fresh.steps.double().mean()


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


@st.composite
def small(draw):
    M, N = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    T, A, gamma = rounds(M, N, 1, seed=draw(st.integers(0, 10_000)), edge=draw(st.sampled_from([0.02, 0.1])))
    return T[0], A[0], gamma[0].clamp_min(0.0), draw(st.sampled_from([2.0, 30.0])), draw(st.sampled_from([0.1, 0.01]))


@settings(max_examples=40, deadline=None)
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


def test_smooth_makespan_needs_no_small_numbers():
    T = torch.tensor([[1e300, 1e300], [1.0, 1.0]], dtype=torch.float64)
    X = torch.full((2, 2), 0.5, dtype=torch.float64)
    assert smooth_makespan(X, T, 1.0).isfinite()


GOOD_T, GOOD_A = torch.ones(2, 3, 4, dtype=torch.float64), torch.full((2, 3, 4), 0.9, dtype=torch.float64)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"T": GOOD_T.float()}, DataError, "float32.*double"),
        ({"T": GOOD_T[:, :2]}, DataError, r"\(2, 2, 4\).*\(2, 3, 4\)"),
        (
            {"T": torch.ones(4, dtype=torch.float64), "A": torch.ones(4, dtype=torch.float64)},
            DataError,
            r"\(\.\.\., M, N\)",
        ),
        ({"T": GOOD_T.index_fill(0, torch.tensor([1]), torch.nan)}, DataError, r"round 1: T\[0, 0\] = nan"),
        ({"T": -GOOD_T}, DataError, r"round 0: T\[0, 0\] = -1"),
        ({"A": GOOD_A + 1}, DataError, r"round 0: A\[0, 0\] = 1\.9.*\[0, 1\]"),
        ({"gamma": 1.5}, DataError, r"gamma must lie in \[0, 1\]"),
        ({"gamma": torch.full((3,), 0.5)}, SettingsError, r"gamma has shape \(3,\).*\(2,\)"),
        ({"tau": 0.0}, SettingsError, "tau must be positive"),
        ({"beta": -1.0}, SettingsError, "beta must be positive"),
        ({"lam": float("inf")}, SettingsError, "lam must be positive and finite"),
        ({"allowed": torch.ones(2, 3, 4)}, DataError, "allowed must be boolean"),
        ({"allowed": torch.ones(5, 4, dtype=torch.bool)}, DataError, "allowed has shape"),
        (
            {"allowed": torch.zeros(2, 3, 4, dtype=torch.bool)},
            InfeasibleError,
            "round 0: task 0 has no allowed cluster",
        ),
        ({"A": GOOD_A.to("meta")}, DataError, "move both to one device"),
        ({"backend": "cuda"}, SettingsError, "unknown backend"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_names_round_and_remedy(change, error, message):
    arguments = {"T": GOOD_T, "A": GOOD_A, "gamma": 0.5, "beta": 5.0, "lam": 0.1, "tau": 0.01} | change
    with pytest.raises(error, match=message):
        relaxed_solution(**arguments)


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

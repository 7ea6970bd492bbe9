"""The interior point method converges at the extremes."""

from itertools import product

import numpy as np
import pytest
import torch
from matching.instances import relative_kkt, rounds

from mfcp.matching import relaxed_matching, relaxed_solution
from mfcp.matching.relaxed.objective import relaxed_objective

ENGINES = ["torch", "compiled"]
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

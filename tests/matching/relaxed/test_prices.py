"""The reduced Newton step against the whole system, solved densely."""

import pytest
import torch

from mfcp.matching.relaxed.prices import newton_step, price_step


def system(seed, M=3, N=4):
    draw = torch.Generator().manual_seed(seed)
    T, d, W = (torch.rand(1, M, N, dtype=torch.float64, generator=draw) + 0.1 for _ in range(3))
    D = torch.rand(1, M + 1, dtype=torch.float64, generator=draw) + 0.1
    V = torch.randn(1, M, N, dtype=torch.float64, generator=draw)
    force = torch.randn(1, M + 1, dtype=torch.float64, generator=draw)
    return T, d, W, D, V, force


def dense(T, d, W, D, V, force):
    """dX, dp, dq, and the multipliers of the columns and of Σ dp = 0, by one linear system."""
    _, M, N = T.shape
    size = M * N + M + 1 + N + 1
    A, right = torch.zeros(size, size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)

    def x(i, j):
        return i * N + j

    p, q, nu, theta = M * N, M * N + M, M * N + M + 1, size - 1
    for i in range(M):
        for j in range(N):  # dX / W + V + t dp + d dq + nu_j = 0
            row = x(i, j)
            A[row, row], A[row, p + i], A[row, q], A[row, nu + j] = 1 / W[0, i, j], T[0, i, j], d[0, i, j], 1
            right[row] = -V[0, i, j]
    for i in range(M):  # dp / D_p + theta = t · dX + g_p
        A[p + i, p + i], A[p + i, theta], right[p + i] = 1 / D[0, i], 1, force[0, i]
        for j in range(N):
            A[p + i, x(i, j)] = -T[0, i, j]
    A[q, q], right[q] = 1 / D[0, M], force[0, M]  # dq / D_q = d · dX + g_q
    for i in range(M):
        for j in range(N):
            A[q, x(i, j)] = -d[0, i, j]
    for j in range(N):
        A[nu + j, [x(i, j) for i in range(M)]] = 1
    A[theta, p : p + M] = 1
    found = torch.linalg.solve(A, right)
    return found[: M * N].reshape(1, M, N), found[M * N : M * N + M + 1][None]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("refinements", [0, 2])
def test_the_step_solves_the_whole_system(seed, refinements):
    parts = system(seed)
    for own, expected in zip(newton_step(*parts, refinements=refinements), dense(*parts), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-9)


def test_without_a_gradient_it_is_the_price_step_with_its_decrement():
    T, d, W, D, V, force = system(7)
    prices, decrement = price_step(T, d, W, D, force)
    torch.testing.assert_close(prices, newton_step(T, d, W, D, 0 * V, force)[1])
    torch.testing.assert_close(decrement, (prices * force).sum(1))
    assert decrement > 0

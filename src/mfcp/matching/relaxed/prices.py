"""One Newton step on the optimality conditions, reduced to the M + 1 prices; the heart of solve and derivative.

All steps of the solver and the backward pass solve the same linear system, the paper's Eq. (15) with other weights:

    dX = -C(V + t dp + d dq),   dp / D_p + theta = t · dX + g_p,   dq / D_q = d · dX + g_q,   Σ dp = 0,

where C(Y)_ij = W_ij (Y_ij - Σ_k W_kj Y_kj / Σ_k W_kj) keeps column sums, W is the inverse curvature of the objective
in X (X / tau at the optimum) and D that in the prices. Eliminating dX leaves (D⁻¹ + K) dπ = g - b · C(V) - theta e,
K = Σ_j b_j (diag w_j - w_j w_jᵀ / Σ w_j) b_jᵀ with b_j = (diag t_j; d_j): one (M + 1) × N × (M + 1) product.
"""

from __future__ import annotations

import torch
from torch import Tensor


def newton_step(
    T: Tensor, d: Tensor, W: Tensor, D: Tensor, V: Tensor, force: Tensor, *, refinements: int = 0
) -> tuple[Tensor, Tensor]:
    """(dX (B, M, N), dprices (B, M + 1)) of the system above.

    Args:
        T: (B, M, N) seconds.
        d: (B, M, N) reliability that a pair lacks against the task's best cluster, over N.
        W: (B, M, N) inverse curvature in X, 0 where forbidden.
        D: (B, M + 1) inverse curvature in the prices.
        V: (B, M, N) gradient of the objective in X.
        force: (B, M + 1) residual of the price equations, g.
        refinements: rounds of iterative refinement. The system is solved to about 1e-16 / (tau lam) without, which
            for tiny weights is not enough: the residual is formed entry by entry, so each round gains many digits.
    """
    share = W / W.sum(1, keepdim=True)
    factor, S = _factor(T, d, W, share, D)
    prices = torch.zeros_like(D)
    for _ in range(1 + refinements):
        dX = _respond(T, d, W, share, V, prices)
        prices = prices + _simplex_solve(factor, S, _sums(T, d, dX) + force - prices / D)
    return _respond(T, d, W, share, V, prices), prices


def price_step(T: Tensor, d: Tensor, W: Tensor, D: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
    """(dprices (B, M + 1), squared decrement force · dprices (B,)) of the system above for V = 0."""
    share = W / W.sum(1, keepdim=True)
    factor, S = _factor(T, d, W, share, D)
    prices = _simplex_solve(factor, S, force)
    return prices, (prices * force).sum(1)


def _respond(T: Tensor, d: Tensor, W: Tensor, share: Tensor, V: Tensor, prices: Tensor) -> Tensor:
    push = V + T * prices[:, :-1, None] + d * prices[:, -1][:, None, None]
    return -W * (push - (share * push).sum(1, keepdim=True))


def _sums(T: Tensor, d: Tensor, X: Tensor) -> Tensor:
    """(B, M + 1) loads and missing reliability of X."""
    return torch.cat([(T * X).sum(2), (d * X).sum((1, 2))[:, None]], 1)


def _factor(T: Tensor, d: Tensor, W: Tensor, share: Tensor, D: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factor of I + S K S and S = sqrt(D): with D inside, prices near 0 do no harm."""
    M = T.shape[1]
    TW = T * W
    centred = d - (share * d).sum(1, keepdim=True)
    K = W.new_empty(len(W), M + 1, M + 1)
    K[:, :M, :M] = -(T * share) @ TW.transpose(1, 2)
    K.diagonal(dim1=1, dim2=2)[:, :M] = (TW * T * (1 - share)).sum(2)
    K[:, :M, M] = K[:, M, :M] = (TW * centred).sum(2)
    K[:, M, M] = (W * centred.square()).sum((1, 2))
    S = D.sqrt()
    H = K * (S[:, :, None] * S[:, None, :])
    H.diagonal(dim1=1, dim2=2).add_(1.0)
    return torch.linalg.cholesky_ex(H).L, S  # a round that breaks down turns NaN and is reported; it must not raise


def _simplex_solve(factor: Tensor, S: Tensor, force: Tensor) -> Tensor:
    """(B, M + 1) solution of (D⁻¹ + K) y = force - theta e with the first M entries of y summing to zero."""
    edge = torch.cat([S[:, :-1], torch.zeros_like(S[:, -1:])], 1)
    y, e = torch.cholesky_solve(torch.stack([S * force, edge], 2), factor).unbind(2)
    theta = (edge * y).sum(1, keepdim=True) / (edge * e).sum(1, keepdim=True)
    return S * (y - theta * e)

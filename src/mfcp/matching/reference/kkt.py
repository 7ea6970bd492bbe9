"""The optimality conditions of the relaxed problem as the paper writes them, dense: the reference, not what runs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mfcp.matching.relaxed.mirror_descent import objective
from mfcp.matching.relaxed.objective import RelaxedProblem


def kkt_residual(problem: RelaxedProblem, X: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
    """Stationarity (B, M, N) and feasibility (B, N) of a plan and its column multipliers; both 0 at the optimum.

    Eq. (14) of [Huo2025]_: ∇_X F(X; T, A) + nu_j = 0 and Σ_i x_ij = 1. The entropy keeps X > 0, so the multipliers of
    x >= 0 that the paper carries are zero (docs/equations.md).

    Args:
        problem: one or more rounds without mask.
        X: (B, M, N) plan.
        nu: (B, N) multiplier of each task's column sum, seconds.
    """
    with torch.enable_grad():
        at = X.detach().requires_grad_()
        (slope,) = torch.autograd.grad(objective(problem, at).sum(), at)
    return slope + nu[:, None, :], X.sum(1) - 1


def kkt_response(problem: RelaxedProblem, X: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """(dL/dT, dL/dA) for dL/dX = G at the optimum X by the dense system of M N + N unknowns.

    Eq. (15) of [Huo2025]_: [[∇²_XX F, Bᵀ], [B, 0]] [dX; dnu] = -[∇²_Xθ F; 0] dθ, B the column sums; solved once for
    the adjoint. `argmin.respond` is the same with M + 1 unknowns.
    """
    rounds = [_adjoint(problem.take(b), X[b], G[b]) for b in range(len(X))]
    return torch.stack([grad for grad, _ in rounds]), torch.stack([grad for _, grad in rounds])


def _adjoint(one: RelaxedProblem, X: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    M, N = X.shape

    def value(plan: Tensor, T: Tensor = one.T[0], A: Tensor = one.A[0]) -> Tensor:
        return objective(replace(one, T=T[None], A=A[None]), plan[None])[0]

    hessian = torch.autograd.functional.hessian(value, X).reshape(M * N, M * N)  # type: ignore[no-untyped-call]
    columns = torch.eye(N, dtype=X.dtype, device=X.device).repeat(1, M)
    system = torch.cat([torch.cat([hessian, columns.T], 1), torch.cat([columns, X.new_zeros(N, N)], 1)])
    adjoint = torch.linalg.solve(system, torch.cat([G.flatten(), X.new_zeros(N)]))[: M * N].reshape(M, N)
    with torch.enable_grad():
        T, A = one.T[0].clone().requires_grad_(), one.A[0].clone().requires_grad_()
        plan = X.detach().requires_grad_()
        (slope,) = torch.autograd.grad(value(plan, T, A), plan, create_graph=True)
        grad_T, grad_A = torch.autograd.grad(-(slope * adjoint).sum(), (T, A))
    return grad_T, grad_A

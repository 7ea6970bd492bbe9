"""Algorithms 1 and 2 and Eq. (15) of [Huo2025]_ as printed: for the reproduction, and for the rows that follow it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mfcp.matching.relaxed.mirror_descent import objective_slope
from mfcp.matching.relaxed.objective import RelaxedProblem

PRINTED_STEPS, PRINTED_RATE, PRINTED_BETA, PRINTED_LAM = 25, 0.5, 1.0, 0.03
"""What the paper does not tell of Algorithm 1, per balanced makespan: of the grid of `benchmarks/printed.py`, weights
with good rounded plans at a step that is short enough for the iterates not to jump between corners.

Under the true times and reliabilities these plans cost as much as plans at random on some settings.
"""
_LEAST_MARGIN = 1e-3  # of reliability over gamma, below which the barrier goes on along its tangent
_RANK = 1e-10  # share of the largest eigenvalue below which one is none


def printed_problem(
    T: Tensor, A: Tensor, gamma: Tensor, beta: float, lam: float, allowed: Tensor | None = None
) -> RelaxedProblem:
    """Rounds (B, M, N) without the entropy that `relaxed_problem` asks for: F of Eq. (9) as printed.

    Args:
        T, A, gamma, beta, lam: see `RelaxedProblem`; gamma (B,).
        allowed: (B, M, N) which pairs exist.
    """
    forbidden = None if allowed is None or bool(allowed.all()) else ~allowed
    if forbidden is not None:
        T, A = T.masked_fill(forbidden, 0.0), A.masked_fill(forbidden, 0.0)
    sharpness, barrier, entropy = (torch.full_like(gamma, value) for value in (beta, lam, 0.0))
    return RelaxedProblem(T, A, forbidden, gamma, sharpness, barrier, entropy, batch=T.shape[:1])


def softmax_descent(problem: RelaxedProblem, *, steps: int = 100, rate: float = 0.5) -> Tensor:
    """(B, M, N) plans after gradient steps, each followed by a softmax of X itself.

    Algorithm 1 of [Huo2025]_: from the uniform plan, X ← softmax(X - rate ∇F(X; T, A)) in every column. The iterate
    cannot leave softmax of a step of bounded size: it stalls near uniform, far above the optimum of Eq. (10). What it
    has to mean is softmax of log X - rate ∇F, which is `mirror_descent.mirror_descent`. Where the barrier is crossed,
    the printed algorithm is undefined; its slope is then that of the barrier at a margin of 1e-3.

    Args:
        problem: rounds; tau = 0 is as printed.
        steps: number of steps.
        rate: step length, 1 / seconds.
    """
    X = torch.full_like(problem.T.detach(), 1 / problem.T.shape[1])
    for _ in range(steps):
        X = X - rate * printed_slope(problem, X)
        if problem.forbidden is not None:
            X = X.masked_fill(problem.forbidden, -torch.inf)
        X = torch.softmax(X, 1)
    return X


def forward_responses(
    problem: RelaxedProblem,
    X: Tensor,
    G: Tensor,
    own: Tensor,
    *,
    samples: int,
    delta: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """(dL/dT, dL/dA), each (B, M, N), for dL/dX = G by forward differences, all samples in one batch.

    Algorithm 2 of [Huo2025]_ ("forward gradient" there, elsewhere a zeroth-order or Gaussian smoothing estimate).
    Times and reliabilities are perturbed apart, by one-sided steps on themselves, and X* is differenced, not the loss:
    <G, (X(t + delta v) - X(t)) / delta> v, averaged. No other row than each round's own is perturbed.

    Args:
        problem: rounds (B, M, N).
        X: (B, M, N) their plans by `softmax_descent`.
        G: (B, M, N).
        own: (B, M, N) True in the row of the cluster whose predictions are differentiated.
        samples: S.
        delta: perturbation, in seconds and in reliability.
        generator: of the directions.
    """
    B = len(X)
    many = problem.repeated(samples)
    v = torch.randn((2, samples * B, *X.shape[1:]), dtype=X.dtype, generator=generator) * own.repeat(samples, 1, 1)
    if problem.forbidden is not None:
        v = v.masked_fill(problem.forbidden.repeat(samples, 1, 1), 0.0)
    before, weight = X.repeat(samples, 1, 1), G.repeat(samples, 1, 1)
    slopes = []
    for name, direction in zip(("T", "A"), v, strict=True):
        moved = softmax_descent(
            replace(many, **{name: getattr(many, name) + delta * direction}), steps=PRINTED_STEPS, rate=PRINTED_RATE
        )
        along = (weight * (moved - before)).sum((1, 2)) / delta
        slopes.append((along[:, None, None] * direction).reshape(samples, B, *X.shape[1:]).mean(0))
    return slopes[0], slopes[1]


def printed_response(problem: RelaxedProblem, X: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """(dL/dT, dL/dA), each (B, M, N), for dL/dX = G by Eq. (15) with the bounds of X disregarded, as the paper does.

    Without the entropy ∇²_XX F has rank M at most, and the system is singular: its least-squares solution of least
    norm is taken. That matrix is U C Uᵀ with M + 1 columns, one per load and one for reliability, so that nothing
    larger is decomposed.

    Args:
        problem: rounds (B, M, N) with tau = 0.
        X: (B, M, N) plans, whether or not they are optimal.
        G: (B, M, N).
    """
    T, A, N = problem.T, problem.A, X.shape[2]
    with torch.no_grad():
        load, g = (X * T).sum(2), printed_margin(problem, X)
        p = torch.softmax(problem.beta[:, None] * load, 1)
        root = p.sqrt()
        factor = problem.beta.sqrt()[:, None, None] * (torch.diag_embed(root) - p[:, :, None] * root[:, None, :])
        by_load = T[..., None] * factor[:, :, None, :]  # (B, M, N, M)
        by_reliability = A / N * (problem.lam.sqrt() / g)[:, None, None]
        columns = torch.cat([by_load, by_reliability[..., None]], 3)
        free = torch.ones_like(X) if problem.forbidden is None else (~problem.forbidden).to(X.dtype)
        free = free[..., None]
        columns = (columns - (columns * free).sum(1, keepdim=True) / free.sum(1, keepdim=True)) * free
        W = columns.flatten(1, 2)
        values, vectors = torch.linalg.eigh(W.mT @ W)
        inverse = torch.where(values > _RANK * values[:, -1:], values, torch.inf).square().reciprocal()
        along = vectors.mT @ (W.mT @ G.flatten(1, 2)[..., None])
        adjoint = (W @ (vectors @ (inverse[..., None] * along))).reshape(X.shape)
    with torch.enable_grad():
        times, shares = T.detach().requires_grad_(), A.detach().requires_grad_()
        slope = printed_slope(replace(problem, T=times, A=shares), X.detach())
        dT, dA = torch.autograd.grad(-(slope * adjoint).sum(), (times, shares))
    return dT, dA


def printed_margin(problem: RelaxedProblem, X: Tensor) -> Tensor:
    """(B,) mean reliability over gamma, but at least 1e-3: where F is defined."""
    return ((X * problem.A).sum((1, 2)) / X.shape[2] - problem.gamma).clamp_min(_LEAST_MARGIN)


def printed_slope(problem: RelaxedProblem, X: Tensor) -> Tensor:
    """(B, M, N) ∇_X F; where a plan misses gamma and F is not defined, its barrier's at a margin of 1e-3."""
    reached = (X * problem.A).sum((1, 2)) / X.shape[2]
    gamma = torch.minimum(problem.gamma, reached.detach() - _LEAST_MARGIN)
    slope, _ = objective_slope(replace(problem, gamma=gamma), X)
    return slope

"""Algorithms 1 and 2 of [Huo2025]_ as printed, one round at a time, for the reproduction; nothing else uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from mfcp.matching.relaxed.mirror_descent import objective_slope
from mfcp.matching.relaxed.objective import RelaxedProblem

Inner = Callable[[RelaxedProblem], Tensor]


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
        X = torch.softmax(X - rate * _printed_slope(problem, X), 1)
    return X


def forward_gradient(
    problem: RelaxedProblem,
    loss: Callable[[Tensor], Tensor],
    cluster: int,
    *,
    samples: int,
    delta: float,
    generator: torch.Generator,
    inner: Inner = softmax_descent,
) -> Tensor:
    """(B, N) estimate of the derivative of loss(X*) in the predicted times of one cluster.

    Algorithm 2 of [Huo2025]_: for s = 1 … S draw v ~ N(0, I), solve the matching for t_i + delta v, and average
    (loss(X(t_i + delta v)) - loss(X(t_i))) / delta · v. "Forward gradient" in the paper; elsewhere a zeroth-order
    (Gaussian smoothing) estimate. `gradients.ZerothOrder` does all clusters, rounds and samples in one batch.

    Args:
        problem: rounds (B, M, N) under predicted T, A.
        loss: plans (B, M, N) to (B,).
        cluster: i.
        samples: S.
        delta: perturbation, seconds.
        generator: of the directions.
        inner: the matching solver.
    """
    before = loss(inner(problem))
    total = torch.zeros_like(problem.T[:, cluster])
    for _ in range(samples):
        v = torch.randn(total.shape, dtype=total.dtype, device=generator.device, generator=generator).to(total.device)
        T = problem.T.clone()
        T[:, cluster] += delta * v
        slope = (loss(inner(replace(problem, T=T))) - before) / delta
        total += slope[:, None] * v
    return total / samples


def _printed_slope(problem: RelaxedProblem, X: Tensor) -> Tensor:
    N = X.shape[2]
    margin = (X * problem.A).sum((1, 2)) / N - problem.gamma
    lift = (1e-3 - margin).clamp_min(0.0)
    slope, _ = objective_slope(replace(problem, gamma=problem.gamma - lift), X)
    return slope

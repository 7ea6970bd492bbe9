"""Mirror descent on the relaxed problem: Algorithm 1 of [Huo2025]_ as it has to be read, differentiable step by step.

The printed algorithm takes softmax of X itself (`literal.py`) and stalls; with the step on log X, softmax of
log X - eta ∇F, it is mirror descent for the entropy and converges linearly, at rate 1 - eta tau (Theorem 4).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mfcp.matching.relaxed.objective import RelaxedProblem, most_reliable, relaxed_objective

_INSIDE = 0.5  # share of the room to gamma that the starting plan keeps


def mirror_descent(problem: RelaxedProblem, steps: int, *, start: Tensor | None = None) -> Tensor:
    """(B, M, N) plans after `steps` steps; autograd sees through every step.

    The step length 1 / (tau + beta max_i p_i Σ_j t_ij² x_ij + q² / lam Σ d² x) is the local smoothness of F relative
    to the entropy, so the objective falls at every step; it is halved where the barrier would be crossed.

    Args:
        problem: rounds, gamma within reach.
        steps: number of steps.
        start: (B, M, N) plans of positive entries above gamma; default `interior_plan`.
    """
    X = interior_plan(problem) if start is None else start
    for _ in range(steps):
        X = mirror_step(problem, X)
    return X


def mirror_step(problem: RelaxedProblem, X: Tensor) -> Tensor:
    """(B, M, N) one step of mirror descent from X."""
    log_X = X.clamp_min(1e-300).log()
    slope, curvature = objective_slope(problem, X)
    with torch.no_grad():
        before = objective(problem, X)
        eta = 1 / (problem.tau + curvature)
        for _ in range(60):
            trial = _moved(problem, log_X, slope, eta)
            bad = margin(problem, trial) <= 0
            if problem.speedup is not None:  # not convex: the local smoothness promises nothing
                bad |= objective(problem, trial) > before + 1e-12 * before.abs()
            if not bool(bad.any()):
                break
            eta = torch.where(bad, eta / 2, eta)
    return _moved(problem, log_X, slope, eta)


def objective(problem: RelaxedProblem, X: Tensor) -> Tensor:
    """(B,) `relaxed_objective` of a problem."""
    p = problem
    return relaxed_objective(X, p.T, p.A, p.gamma, p.beta, p.lam, p.tau, p.speedup)


def objective_slope(problem: RelaxedProblem, X: Tensor) -> tuple[Tensor, Tensor]:
    """(gradient (B, M, N) of the objective in X up to column constants, its smoothness (B,) relative to entropy)."""
    T, A, N = problem.T, problem.A, problem.T.shape[2]
    load = (X * T).sum(2)
    effort = T
    if problem.speedup is not None:
        count = X.sum(2)
        factor = problem.speedup(count)
        effort = factor[:, :, None] * T + (problem.speedup.slope(count) * load)[:, :, None]
        load = factor * load
    p = torch.softmax(problem.beta[:, None] * load, 1)
    q = problem.lam / margin(problem, X)
    slope = p[:, :, None] * effort - (q / N)[:, None, None] * A
    with torch.no_grad():
        lacking = (A.amax(1, keepdim=True) - A) / N
        by_load = problem.beta * (p * (effort.square() * X).sum(2)).amax(1)
        curvature = by_load + q.square() / problem.lam * (lacking.square() * X).sum((1, 2))
    return slope + problem.tau[:, None, None] * X.clamp_min(1e-300).log(), curvature


def interior_plan(problem: RelaxedProblem, plan: Tensor | None = None) -> Tensor:
    """(B, M, N) a plan (default: uniform), mixed with the most reliable one until half the room to gamma is kept."""
    possible = torch.ones_like(problem.T.detach()) if plan is None else plan
    if problem.forbidden is not None:
        possible = possible.masked_fill(problem.forbidden, 0.0)
    even, best = possible / possible.sum(1, keepdim=True), most_reliable(problem)
    low, high = margin(problem, even).detach(), margin(problem, best).detach()
    share = ((_INSIDE * high - low) / (high - low).clamp_min(1e-300)).clamp(0.0, 1.0)
    return even + share[:, None, None] * (best - even)


def margin(problem: RelaxedProblem, X: Tensor) -> Tensor:
    """(B,) mean reliability minus gamma."""
    return (X * problem.A).sum((1, 2)) / X.shape[2] - problem.gamma


def _moved(problem: RelaxedProblem, log_X: Tensor, slope: Tensor, eta: Tensor) -> Tensor:
    logits = log_X - eta[:, None, None] * slope
    if problem.forbidden is not None:
        logits = logits.masked_fill(problem.forbidden, -torch.inf)
    return torch.softmax(logits, 1)

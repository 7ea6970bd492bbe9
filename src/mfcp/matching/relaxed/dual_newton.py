"""The relaxed argmin of Eq. (10) of [Huo2025]_ through its dual: M + 1 unknown prices per round.

With the entropy tau Σ x log x every column of X is a softmax once the prices are known: p_i of a second on cluster i
(p on the simplex) and q > 0 of a unit of missing reliability. What pair (i, j) lacks against the task's best cluster is
d_ij = (max_k a_kj - a_ij) / N, and the room = mean_j max_k a_kj - gamma, the dual is

    D(p, q) = -(1/beta) Σ p log p + lam log q - q room - tau Σ_j log Σ_i exp(-(p_i t_ij + q d_ij) / tau),

concave, with gradient (load_i - log p_i / beta, lam / q - slack) up to the simplex multiplier. Written in d
and slack = room - Σ d x, nothing cancels when gamma is close to the edge. Three phases:

1. `interior_point`: prices to within a small barrier;
2. Newton on the dual, quadratic from there; rounds where it is not are sent back for a smaller barrier;
3. Newton on X itself, with iterative refinement, where rounding of the prices leaves a residual (small tau, lam).

This module is the readable definition: any torch device, batched, no loop over rounds. `kernels/relaxed_newton.py` is
the same algorithm, compiled for the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mfcp.matching.kernels.tuning import (
    ATTEMPTS,
    DUAL_STEPS,
    FAINT,
    LARGEST_STEP,
    LOWEST,
    NEAR,
    PATIENCE,
    POLISH_STEPS,
    REFINEMENTS,
    USED,
)
from mfcp.matching.relaxed.interior_point import Rounds, interior_point
from mfcp.matching.relaxed.prices import newton_step, price_step


@dataclass(frozen=True)
class DualPoint:
    """Plan X (B, M, N), prices p (B, M) and q (B,), Newton steps of all phases, relative residual (B,)."""

    X: Tensor
    p: Tensor
    q: Tensor
    steps: Tensor
    residual: Tensor


def solve_rounds(
    rounds: Rounds, *, tolerance: float, max_steps: int, start: tuple[Tensor, Tensor] | None = None
) -> DualPoint:
    """The optimum of every round, as good as reached; the residual tells.

    Args:
        rounds: feasible rounds.
        tolerance: relative optimality residual wanted.
        max_steps: interior point steps of a round at most, per handover.
        start: prices (B, M), (B,) of near-by rounds, tried before phase 1.
    """
    unsolved = torch.full_like(rounds.room, math.inf)
    best = DualPoint(
        rounds.shared(), rounds.T.mean(2), rounds.room.clone(), torch.zeros_like(unsolved).long(), unsolved
    )
    todo = torch.arange(len(unsolved), device=unsolved.device)
    for attempt in range(0 if start is None else -1, len(ATTEMPTS)):
        part = rounds.take(todo)
        near = math.inf
        if start is not None and attempt < 0:
            p, q, spent, near = start[0][todo], start[1][todo], torch.zeros_like(todo), NEAR
        else:
            handover, by_speed, refinements = ATTEMPTS[attempt]
            p, q, spent = interior_point(
                part, handover=handover, by_speed=by_speed, refinements=refinements, max_steps=max_steps
            )
        X, climbed, arrived = _ascend(part, p, q, tolerance, near)
        found = _polish(part, X, spent + climbed, tolerance)
        best.steps[todo] += torch.where(arrived, found.steps, spent + climbed)
        found.residual[~arrived] = math.inf
        better = found.residual < best.residual[todo]
        for name in ("X", "p", "q", "residual"):
            getattr(best, name)[todo[better]] = getattr(found, name)[better]
        todo = todo[~(best.residual[todo] <= tolerance)]
        if not len(todo):
            break
    return best


def _ascend(rounds: Rounds, p: Tensor, q: Tensor, tolerance: float, near: float) -> tuple[Tensor, Tensor, Tensor]:
    """Phase 2: X and steps after at most `DUAL_STEPS` Newton steps on the dual, and which rounds were not given up.

    Given up is a round that the first `PATIENCE` steps leave further off than `near`.
    """
    log_p = _normalised(p.clamp_min(1e-300).log())
    longest, worst = rounds.T.amax(2), rounds.d.amax((1, 2))
    # below these a price cannot move the plan, so its growth needs no cap until it gets there
    quiet_p = (rounds.tau[:, None] / longest.clamp_min(1e-300)).log() - 2
    quiet_q = (rounds.tau / worst.clamp_min(1e-300)).log() - 2
    steps = torch.zeros(len(q), dtype=torch.long, device=q.device)
    arrived = torch.ones_like(steps, dtype=torch.bool)
    for count in range(DUAL_STEPS + 1):
        p = log_p.exp()
        X = _plan(rounds, p, q)
        load, slack = (rounds.T * X).sum(2), rounds.room - (rounds.d * X).sum((1, 2))
        off_p = (torch.softmax(rounds.beta[:, None] * load, 1) - p).abs() * longest
        off_q = (rounds.lam / slack.clamp_min(1e-300) - q).abs() * worst
        size = (p * longest).amax(1) + q * worst + rounds.tau
        off = off_p.amax(1) + off_q
        if count == PATIENCE:
            arrived = ~(off > near * size)
        live = ~(off <= tolerance * size) & arrived
        if count == DUAL_STEPS or not bool(live.any()):
            break
        steps += live.long()
        force = torch.cat([load - log_p / rounds.beta[:, None], (rounds.lam / q - slack)[:, None]], 1)
        D = torch.cat([rounds.beta[:, None] * p, (q.square() / rounds.lam)[:, None]], 1)
        step, _ = price_step(rounds.T, rounds.d, X / rounds.tau[:, None, None], D, force)
        log_p, q = _grow(log_p, q, step[:, :-1] / p, step[:, -1] / q, quiet_p, quiet_q, live)
    return X, steps, arrived


def _grow(
    log_p: Tensor, q: Tensor, by_p: Tensor, by_q: Tensor, quiet_p: Tensor, quiet_q: Tensor, live: Tensor
) -> tuple[Tensor, Tensor]:
    """Prices after relative changes `by_p`, `by_q`: p multiplicatively, q as 1 / q where it falls (exact for lam/q)."""
    loud = torch.where(log_p >= quiet_p, by_p, 0.0).amax(1)
    alpha = (LARGEST_STEP / loud.clamp_min(LARGEST_STEP)).masked_fill(~live, 0.0)
    up = torch.minimum(alpha[:, None] * by_p, (quiet_p - log_p).clamp_min(0.0) + LARGEST_STEP)
    change = alpha * by_q
    change = torch.where(change < 0, -torch.log1p(-change.clamp_max(0.0)), change)
    change = torch.minimum(change, (quiet_q - q.log()).clamp_min(0.0) + LARGEST_STEP)
    return _normalised(log_p + up), q * change.exp()


def _normalised(log_p: Tensor) -> Tensor:
    return torch.log_softmax(log_p, 1).clamp_min(LOWEST)


def _plan(rounds: Rounds, p: Tensor, q: Tensor) -> Tensor:
    """(B, M, N) columns softmax(-(p t + q d) / tau)."""
    cost = rounds.T * p[:, :, None] + rounds.d * q[:, None, None]
    if rounds.forbidden is not None:
        cost = cost.masked_fill(rounds.forbidden, math.inf)
    return torch.softmax(-cost / rounds.tau[:, None, None], 1)


def _polish(rounds: Rounds, X: Tensor, steps: Tensor, tolerance: float) -> DualPoint:
    """Phase 3: Newton on X until the spread of the gradient of F over used entries is within tolerance."""
    T, d, tau = rounds.T, rounds.d, rounds.tau[:, None, None]
    for count in range(POLISH_STEPS + 1):
        p, q, spread, residual = optimality(rounds, X)
        live = ~(residual <= tolerance)
        if count == POLISH_STEPS or not bool(live.any()):
            break
        steps = steps + live.long()
        D = torch.cat([rounds.beta[:, None] * p, (q.square() / rounds.lam)[:, None]], 1)
        dX, _ = newton_step(T, d, X / tau, D, spread, torch.zeros_like(D), refinements=REFINEMENTS)
        moved = torch.maximum(X + dX, 0.1 * X)
        moved = moved / moved.sum(1, keepdim=True)
        X = torch.where(live[:, None, None], moved, X)
    return DualPoint(X, p, q, steps, residual)


def optimality(rounds: Rounds, X: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Prices p (B, M) and q (B,) at X, deviation (B, M, N) of ∇F from its column means, its largest relative size (B,).

    The deviation is zero at the optimum: Eq. (14) with the multipliers eliminated. It is relative to the largest
    term of ∇F over the used entries, so the measure has no unit. An entry that is zero counts where its pair is so
    cheap that it should not be: at a vertex the used entries alone agree with each other, whatever they cost.
    """
    T, d = rounds.T, rounds.d
    slack = rounds.room - (d * X).sum((1, 2))
    p = torch.softmax(rounds.beta[:, None] * (T * X).sum(2), 1).clamp_min(math.exp(LOWEST))
    q = rounds.lam / slack
    used = X > USED
    terms = T * p[:, :, None] + d * q[:, None, None]
    gradient = terms + rounds.tau[:, None, None] * torch.where(used, X, FAINT).log()
    spread = gradient - (X * gradient).sum(1, keepdim=True)
    residual = torch.where(used, spread.abs(), -spread)
    if rounds.forbidden is not None:
        residual = residual.masked_fill(rounds.forbidden, 0.0)
    residual = residual.amax((1, 2)) / (torch.where(used, terms.abs(), 0.0).amax((1, 2)) + rounds.tau)
    return p, q, torch.where(used, spread, 0.0), torch.where(slack > 0, residual, math.inf)

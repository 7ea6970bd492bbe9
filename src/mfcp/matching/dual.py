"""The relaxed argmin of Eq. (10) of [Huo2025]_ through its dual: M + 1 unknown prices per round.

With an entropy term tau Σ x log x, every column of X is a softmax once the prices are known: p_i of a
second on cluster i (p on the simplex) and q > 0 of a unit of missing reliability. With the regret of a pair's
reliability, d_ij = (max_k a_kj - a_ij) / N, and the room = mean_j max_k a_kj - gamma, the dual is

    D(p, q) = -(1/beta) Σ p log p + lam log q - q room - tau Σ_j log Σ_i exp(-(p_i t_ij + q d_ij) / tau),

concave, with gradient (load_i - log p_i / beta, lam / q - slack) up to the simplex multiplier and Newton matrix
I + S K S / tau, S = diag(sqrt(beta p), q / sqrt(lam)), K = Σ_j b_j (diag x_j - x_j x_jᵀ) b_jᵀ, b_j = (diag t_j; d_j).
Written in regrets d and slack = room - Σ d x, nothing cancels when gamma is close to the edge.

Damped Newton follows a path in the three smoothings (tau, 1/beta, lam) at once. This module is the readable
definition: any torch device, batched, no loop over rounds. `compiled.py` is the same algorithm for the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TINY = 1e-300
SHRINK = 0.1  # factor on the smoothings per stage of the path
CENTRED = 0.5  # a stage ends when the squared Newton decrement, in units of tau, falls below this
LARGEST_STEP = 3.0  # cap on the growth of a log price per step; shrinking needs none
BACKTRACK = 0.35
ARMIJO = 1e-4


@dataclass(frozen=True)
class Rounds:
    """A flat batch of feasible rounds, times in units of the round (see `relaxation.relaxed_solution`).

    Attributes:
        T: (B, M, N) times, finite and >= 0; 0 where forbidden.
        d: (B, M, N) reliability regrets, >= 0; 0 where forbidden.
        forbidden: (B, M, N) True where a task may not run, or None.
        room, beta, lam, tau: (B,).
    """

    T: Tensor
    d: Tensor
    forbidden: Tensor | None
    room: Tensor
    beta: Tensor
    lam: Tensor
    tau: Tensor


@dataclass(frozen=True)
class DualPoint:
    """Where the dual solver stopped: plan (B, M, N), log prices (B, M), price q, Newton steps, residual (B,)."""

    X: Tensor
    log_p: Tensor
    q: Tensor
    steps: Tensor
    residual: Tensor


@dataclass(frozen=True)
class _Smoothing:
    beta: Tensor
    lam: Tensor
    tau: Tensor


@dataclass(frozen=True)
class _Evaluation:
    """All that prices determine: the plan, its logarithm, loads (B, M), slack (B,), dual value (B,)."""

    X: Tensor
    Z: Tensor
    load: Tensor
    slack: Tensor
    value: Tensor


class _Path:
    """Smoothings as a function of theta: 1 at the start, the wanted ones from theta = end on."""

    def __init__(self, rounds: Rounds, warm: bool) -> None:
        self.rounds = rounds
        T, M = rounds.T, rounds.T.shape[1]
        scale = T.mean(1).sum(1) / M
        spread = (T.amax(1) - T.amin(1)).mean(1) / M
        one = 0.0 if warm else 1.0
        self.tau = torch.maximum(rounds.tau, one * spread)
        self.temperature = torch.maximum(1 / rounds.beta, one * scale)
        self.lam = torch.maximum(rounds.lam, one * scale * rounds.room.clamp_max(0.1))
        self.end = torch.stack([rounds.tau / self.tau, 1 / rounds.beta / self.temperature, rounds.lam / self.lam]).amin(
            0
        )

    def at(self, theta: Tensor) -> _Smoothing:
        return _Smoothing(
            1 / torch.maximum(1 / self.rounds.beta, self.temperature * theta),
            torch.maximum(self.rounds.lam, self.lam * theta),
            torch.maximum(self.rounds.tau, self.tau * theta),
        )

    def drift(self, now: _Smoothing, point: _Evaluation, log_p: Tensor, q: Tensor) -> Tensor:
        """(B, M + 1) change of the dual gradient per unit of log theta, prices held."""
        r = self.rounds
        entropy = point.X * point.Z.clamp_min(-800.0)
        entropy = entropy - point.X * entropy.sum(1, keepdim=True)
        moving_tau = (now.tau > r.tau).to(r.T.dtype)
        cool = torch.where(now.beta < r.beta, log_p.T / now.beta, 0.0).T
        by_p = -moving_tau[:, None] * (r.T * entropy).sum(2) - cool
        by_q = torch.where(now.lam > r.lam, now.lam / q, 0.0) - moving_tau * (r.d * entropy).sum((1, 2))
        return torch.cat([by_p, by_q[:, None]], 1)


def solve_dual(
    rounds: Rounds, *, tolerance: float, max_steps: int, start: tuple[Tensor, Tensor] | None = None
) -> DualPoint:
    """Prices and plan of every round.

    Args:
        rounds: feasible rounds.
        tolerance: relative optimality residual at which a round stops; also stops where rounding prevents progress.
        max_steps: Newton steps of a round at most.
        start: prices (B, M), (B,) of near-by rounds; skips the path.
    """
    B, M, _ = rounds.T.shape
    path = _Path(rounds, warm=start is not None)
    if start is None:
        log_p = rounds.T.new_full((B, M), -math.log(M))
        q = 2 * path.lam / rounds.room
        theta = rounds.T.new_ones(B)
    else:
        log_p = torch.log_softmax(start[0].clamp_min(TINY).log(), 1)
        q = start[1].clamp_min(TINY)
        theta = rounds.T.new_zeros(B)
    now = path.at(theta)
    point = _evaluate(rounds, now, log_p, q)
    steps = torch.zeros(B, dtype=torch.long, device=rounds.T.device)
    best = torch.full_like(q, math.inf)
    stalls = torch.zeros_like(steps)
    residual = best
    for _ in range(max_steps + 1):
        at_end = theta <= path.end
        residual = torch.where(at_end, _residual(rounds, point, log_p, q), math.inf)
        gradient = torch.cat([point.load - log_p / now.beta[:, None], (now.lam / q - point.slack)[:, None]], 1)
        S, H = newton_matrix(rounds, point.X, log_p.exp(), q, now.beta, now.lam, now.tau)
        drift = path.drift(now, point, log_p, q)
        newton, tangent = simplex_solve(S, H, torch.stack([gradient, drift], 2)).unbind(2)
        decrement = (newton * gradient).sum(1)
        level = point.value.abs().clamp_min(1.0)
        stalls += (at_end & (decrement.abs() < 1e-11 * level) & (residual > 0.5 * best)).long()
        best = torch.minimum(best, residual)
        done = at_end & ((residual <= tolerance) | (stalls > 1))
        if bool(done.all()):
            break
        steps += (~done).long()
        move = ~at_end & (decrement / now.tau < CENTRED)
        direction = newton + torch.where(move, SHRINK - 1.0, 0.0)[:, None] * tangent
        theta = torch.where(move, theta * SHRINK, theta)
        now = path.at(theta)
        log_p, q, point = _step(rounds, now, (log_p, q, point), direction, decrement, move, done)
    return DualPoint(point.X, log_p, q, steps, residual)


def _step(
    rounds: Rounds,
    now: _Smoothing,
    current: tuple[Tensor, Tensor, _Evaluation],
    direction: Tensor,
    decrement: Tensor,
    move: Tensor,
    done: Tensor,
) -> tuple[Tensor, Tensor, _Evaluation]:
    """Multiplicative step along `direction`, halved until the dual rises (free where the path has just moved)."""
    log_p, q, point = current
    relative = torch.cat([direction[:, :-1] / log_p.exp().clamp_min(TINY), (direction[:, -1] / q)[:, None]], 1)
    growth = torch.maximum(relative[:, :-1].amax(1), relative[:, -1].abs()).clamp_min(TINY)
    alpha = torch.where(done, 0.0, (LARGEST_STEP / growth).clamp_max(1.0))
    slack = 1e-12 * point.value.abs().clamp_min(1.0)
    for _ in range(30):
        trial_p = torch.log_softmax(log_p + alpha[:, None] * relative[:, :-1], 1)
        trial_q = q * torch.exp(alpha * relative[:, -1])
        trial = _evaluate(rounds, now, trial_p, trial_q)
        enough = trial.value >= point.value + ARMIJO * alpha * decrement - slack
        accepted = enough | move | done
        if bool(accepted.all()):
            break
        alpha = torch.where(accepted, alpha, alpha * BACKTRACK)
    return trial_p, trial_q, trial


def _evaluate(rounds: Rounds, now: _Smoothing, log_p: Tensor, q: Tensor) -> _Evaluation:
    p = log_p.exp()
    cost = torch.addcmul(rounds.d * q[:, None, None], rounds.T, p[:, :, None])
    if rounds.forbidden is not None:
        cost = cost.masked_fill(rounds.forbidden, math.inf)
    lowest = cost.amin(1, keepdim=True)
    Z = (lowest - cost) / now.tau[:, None, None]
    X = Z.exp()
    total = X.sum(1, keepdim=True)
    X = X / total
    log_total = total.log()
    load = (rounds.T * X).sum(2)
    slack = rounds.room - (rounds.d * X).sum((1, 2))
    soft = lowest.sum((1, 2)) - now.tau * log_total.sum((1, 2))
    value = -(p * log_p).sum(1) / now.beta + now.lam * q.log() - q * rounds.room + soft
    return _Evaluation(X, Z - log_total, load, slack, value)


def _residual(rounds: Rounds, point: _Evaluation, log_p: Tensor, q: Tensor) -> Tensor:
    """(B,) spread of the gradient of Eq. (9) over the used entries, relative to its largest term."""
    p = log_p.exp()
    longest, worst = rounds.T.amax(2), rounds.d.amax((1, 2))
    off_p = torch.softmax(rounds.beta[:, None] * point.load, 1) - p
    off_q = rounds.lam / point.slack.clamp_min(TINY) - q
    error = (off_p.abs() * longest).amax(1) + off_q.abs() * worst
    return error / ((p * longest).amax(1) + q * worst + rounds.tau)


def newton_matrix(
    rounds: Rounds, X: Tensor, p: Tensor, q: Tensor, beta: Tensor, lam: Tensor, tau: Tensor
) -> tuple[Tensor, Tensor]:
    """S (B, M + 1) and H = I + S K S / tau (B, M + 1, M + 1), see the module's docstring."""
    M = X.shape[1]
    TX = rounds.T * X
    centred = rounds.d - (rounds.d * X).sum(1, keepdim=True)
    K = X.new_empty(len(X), M + 1, M + 1)
    K[:, :M, :M] = -TX @ TX.transpose(1, 2)
    K.diagonal(dim1=1, dim2=2)[:, :M] = (TX * rounds.T * (1 - X)).sum(2)
    K[:, :M, M] = K[:, M, :M] = (TX * centred).sum(2)
    K[:, M, M] = (X * centred.square()).sum((1, 2))
    S = torch.cat([(beta[:, None] * p).sqrt(), (q / lam.sqrt())[:, None]], 1)
    H = K * (S[:, :, None] * S[:, None, :] / tau[:, None, None])
    H.diagonal(dim1=1, dim2=2).add_(1.0)
    return S, H


def simplex_solve(S: Tensor, H: Tensor, rhs: Tensor) -> Tensor:
    """(B, M + 1, k) price steps S H⁻¹ S (rhs - mu e) whose first M entries sum to zero, e the first M ones."""
    factor = torch.linalg.cholesky_ex(H).L  # a round that breaks down turns NaN and is reported; it must not raise
    edge = torch.cat([S[:, :-1], torch.zeros_like(S[:, -1:])], 1)[:, :, None]
    Y = torch.cholesky_solve(torch.cat([S[:, :, None] * rhs, edge], 2), factor)
    Y, E = Y[:, :, :-1], Y[:, :, -1:]
    mu = (edge * Y).sum(1, keepdim=True) / (edge * E).sum(1, keepdim=True)
    return S[:, :, None] * (Y - mu * E)

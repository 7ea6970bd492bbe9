"""Phase 1 of the relaxed argmin: a primal-dual interior point method to within reach of Newton on the prices.

To the entropies of Eq. (9), tau Σ x log x in the plan and (1/beta) Σ p log p in the prices of its saddle form

    min_X max_{p, q}  Σ_i p_i load_i - (1/beta) Σ p log p + q (Σ d x - room) + lam log q + tau Σ x log x,

logarithmic barriers of weight mu are added and driven towards zero. Entropies alone are no barriers: their Newton
steps are only good for steps of size tau, which is why following tau itself down needs ever smaller steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mfcp.matching.kernels.tuning import CENTRING, INSIDE, LONG
from mfcp.matching.relaxed.prices import newton_step


@dataclass(frozen=True)
class Rounds:
    """A flat batch of feasible rounds.

    Attributes:
        T: (B, M, N) seconds; 0 where forbidden.
        d: (B, M, N) reliability that a pair lacks, (max_k a_kj - a_ij) / N, >= 0; 0 where forbidden.
        forbidden: (B, M, N) True where a task may not run, or None.
        room: (B,) largest mean reliability of any plan, minus gamma; > 0.
        beta, lam, tau: (B,).
    """

    T: Tensor
    d: Tensor
    forbidden: Tensor | None
    room: Tensor
    beta: Tensor
    lam: Tensor
    tau: Tensor

    def take(self, keep: Tensor) -> Rounds:
        """The rounds of a mask or index."""
        return Rounds(
            self.T[keep],
            self.d[keep],
            None if self.forbidden is None else self.forbidden[keep],
            self.room[keep],
            self.beta[keep],
            self.lam[keep],
            self.tau[keep],
        )

    def shared(self, *, by_speed: bool = False) -> Tensor:
        """(B, M, N) the plan that shares each task among its allowed clusters, equally or in proportion to 1 / t."""
        share = torch.ones_like(self.T)
        if by_speed:
            share = 1 / torch.maximum(self.T, 1e-6 * self.T.amax(1, keepdim=True)).clamp_min(1e-300)
        if self.forbidden is not None:
            share = share.masked_fill(self.forbidden, 0.0)
        return share / share.sum(1, keepdim=True)


@dataclass(frozen=True)
class _Iterate:
    """Plan X and its dual slack s, price p and its slack w, price q and the reliability slack; barrier mu."""

    X: Tensor
    s: Tensor
    p: Tensor
    w: Tensor
    q: Tensor
    slack: Tensor
    mu: Tensor


def interior_point(
    rounds: Rounds, *, handover: float, by_speed: bool, refinements: int, max_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Prices p (B, M) and q (B,) near the optimum, and the steps taken (B,).

    Args:
        rounds: feasible rounds.
        handover: mu at the end, as a share of the smallest entropy.
        by_speed: start from tasks shared by speed instead of equally.
        refinements: of each Newton step, see `newton_step`; a tiny barrier needs them.
        max_steps: steps of a round at most.
    """
    M, N = rounds.T.shape[1:]
    at = _start(rounds, rounds.shared(by_speed=by_speed))
    scale = at.mu
    least = torch.stack([rounds.tau * N, M / rounds.beta, rounds.lam]).amin(0)
    target = torch.minimum(handover * least, scale)
    steps = torch.zeros(len(scale), dtype=torch.long, device=scale.device)
    live = torch.ones_like(steps, dtype=torch.bool)
    for _ in range(max_steps):
        new, length = _step(rounds, at, 1 - at.mu / scale, refinements)
        steps += live.long()
        arrived = (length > LONG) & (at.mu <= target)
        factor = (1 - length).square().clamp_min(CENTRING)
        mu = torch.maximum(factor * _complementarity(rounds, new), target)
        at = _freeze(replace(new, mu=mu), at, live)
        live = live & ~arrived
        if not bool(live.any()):
            break
    # Loads tell more about a price that only the barrier keeps above 0.
    entropic = torch.softmax(rounds.beta[:, None] * (rounds.T * at.X).sum(2), 1)
    return torch.where(entropic < 0.1 * at.p, entropic, at.p), at.q, steps


def _start(rounds: Rounds, X: Tensor) -> _Iterate:
    M, N = X.shape[1:]
    mu = ((rounds.T * X).sum((1, 2)) / M).clamp_min(1e-300)
    slack = torch.maximum(rounds.room, (rounds.d * X).sum((1, 2)))
    s = (mu * M / N)[:, None, None].expand_as(X)
    p = torch.full_like(X[:, :, 0], 1 / M)
    return _Iterate(X, s, p, mu[:, None].expand_as(p), (rounds.lam + mu) / slack, slack, mu)


def _step(rounds: Rounds, at: _Iterate, progress: Tensor, refinements: int) -> tuple[_Iterate, Tensor]:
    """The Newton step for the present mu, cut short of the boundary, and its length (B,)."""
    M, N = at.X.shape[1:]
    T, d, tau = rounds.T, rounds.d, rounds.tau[:, None, None]
    X = at.X if rounds.forbidden is None else at.X.masked_fill(rounds.forbidden, 1.0)
    mu_x, mu_p = (at.mu / N)[:, None, None], (at.mu / M)[:, None]
    V = T * at.p[:, :, None] + d * at.q[:, None, None] + tau * X.log() - mu_x / X
    by_p = (T * at.X).sum(2) - at.p.log() / rounds.beta[:, None] + mu_p / at.p
    by_q = (rounds.lam + at.mu) / at.q - rounds.room + (d * at.X).sum((1, 2))
    D = torch.cat([at.p / (1 / rounds.beta[:, None] + at.w), (at.q / at.slack)[:, None]], 1)
    force = torch.cat([by_p, by_q[:, None]], 1)
    dX, dprices = newton_step(T, d, at.X / (tau + at.s), D, V, force, refinements=refinements)
    dp, dq = dprices[:, :-1], dprices[:, -1]
    ds = mu_x / X - at.s - at.s * dX / X
    dw = mu_p / at.p - at.w - at.w * dp / at.p
    dslack = rounds.room - at.slack - (d * (at.X + dX)).sum((1, 2))
    inside = progress.clamp_min(INSIDE)
    primal = _length(inside, (dX / X).flatten(1), dw / at.w, (dslack / at.slack)[:, None])
    dual = _length(inside, (ds / at.s).flatten(1), dp / at.p, (dq / at.q)[:, None])
    new = _Iterate(
        at.X + primal[:, None, None] * dX,
        at.s + dual[:, None, None] * ds,
        at.p + dual[:, None] * dp,
        at.w + primal[:, None] * dw,
        at.q + dual * dq,
        at.slack + primal * dslack,
        at.mu,
    )
    return new, torch.minimum(primal, dual)


def _length(inside: Tensor, *relative: Tensor) -> Tensor:
    """(B,) longest step <= 1 that goes no further than `inside` of the way to the boundary."""
    steepest = torch.stack([-r.amin(1) for r in relative]).amax(0)
    return (inside / steepest.clamp_min(1e-300)).clamp_max(1.0)


def _complementarity(rounds: Rounds, at: _Iterate) -> Tensor:
    """(B,) the mu that the iterate stands for: mean over the three kinds of barriers."""
    M = at.X.shape[1]
    return ((at.X * at.s).sum((1, 2)) / M + (at.p * at.w).sum(1) + (at.q * at.slack - rounds.lam).abs()) / 3


def _freeze(new: _Iterate, old: _Iterate, live: Tensor) -> _Iterate:
    """`new` where live, `old` elsewhere."""
    return _Iterate(
        torch.where(live[:, None, None], new.X, old.X),
        torch.where(live[:, None, None], new.s, old.s),
        torch.where(live[:, None], new.p, old.p),
        torch.where(live[:, None], new.w, old.w),
        torch.where(live, new.q, old.q),
        torch.where(live, new.slack, old.slack),
        torch.where(live, new.mu, old.mu),
    )

"""The relaxed plan that pays for the reliability it is expected to lack, instead of keeping away from gamma.

In F, Eq. (9) of [Huo2025]_, price · E[max(0, gamma - r)] takes the place of -lam log g: r is normal with the plan's
mean reliability u and a fixed deviation q, so the term is price · (q phi(d / q) - d Phi(-d / q)) with d = u - gamma,
smooth, convex, and finite everywhere: every round has a plan. As q -> 0 it is the hard penalty price · max(0, -d).

At the optimum the term has a slope -Q and a curvature h in u. The barrier with slack Q / h and lam = Q² / h, at a
shifted gamma, has the same slope and curvature there, hence the same optimum and the same implicit derivative. So the
plan is found by a few solves of such matched barrier problems, each at the u of the last one. That is a Newton
iteration in one unknown. The price that plans need rises with u, and the price that the term pays falls, so that both
sides enclose the solution. Where the iteration leaves that interval, the interval is halved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mfcp.errors import SettingsError
from mfcp.matching.normal import density
from mfcp.matching.relaxed.argmin import Backend, RelaxedSolution, Status, solve_relaxed
from mfcp.matching.relaxed.objective import RelaxedProblem

_STEPS = 60  # halvings at most; Newton needs half a dozen
_CLOSE = 1e-9  # deviations between two values of u; the matched slope is then right to its square
_ROUNDING = 1e-12  # of u
_FAR = 8.0  # deviations above gamma from where on reliability is free
_LEAST = 1e-6  # of tau: a barrier that weighs less is as good as none, and harder to solve
_WIDEST = 1e9  # deviations of slack at most: the term is a straight line there


@dataclass(frozen=True)
class Shortfall:
    """What missing reliability costs.

    Attributes:
        price: seconds per unit of missing mean reliability, > 0; a number, or one per round (...).
        q: standard deviation of a plan's mean reliability, > 0; likewise.
    """

    price: Tensor | float
    q: Tensor | float

    def flat(self, problem: RelaxedProblem) -> tuple[Tensor, Tensor]:
        """Price and q (B,).

        Raises:
            SettingsError: not positive and finite, or of a shape that does not broadcast to the batch.
        """
        found = []
        for name, value in (("price", self.price), ("q", self.q)):
            number = torch.as_tensor(value, dtype=problem.T.dtype, device=problem.T.device).detach()
            try:
                number = number.expand(problem.batch).reshape(-1)
            except RuntimeError:
                raise SettingsError(
                    f"shortfall: {name} has shape {tuple(number.shape)}; give a number or one per round, "
                    f"shape {tuple(problem.batch)}"
                ) from None
            if not bool(((number > 0) & number.isfinite()).all()):
                raise SettingsError(f"shortfall: {name} must be positive and finite, got {float(number.min()):.6g}")
            found.append(number)
        return found[0], found[1]


def solve_shortfall(
    problem: RelaxedProblem,
    shortfall: Shortfall,
    *,
    tolerance: float,
    max_steps: int,
    start: RelaxedSolution | None,
    backend: Backend,
) -> tuple[RelaxedProblem, RelaxedSolution]:
    """The matched barrier problem (flat) and its solution, whose X, prices and derivatives are those with `shortfall`.

    Raises:
        SettingsError: parallel execution, or a bad `shortfall`.
    """
    if problem.speedup is not None:
        raise SettingsError("shortfall cannot go with speedup; leave one of them out")
    price, q = shortfall.flat(problem)
    low, high = torch.zeros_like(q), torch.ones_like(q)
    at = torch.minimum(problem.gamma, problem.reachable_gamma().detach())
    solution, matched = start, problem
    for _ in range(_STEPS):
        matched = _matched(problem, at, price, q)
        solution = solve_relaxed(matched, tolerance=tolerance, max_steps=max_steps, start=solution, backend=backend)
        u = (solution.X * problem.A.detach()).sum((1, 2)) / problem.T.shape[2]
        close = (u - at).abs() <= _CLOSE * q + _ROUNDING
        if bool((close | ~solution.converged).all()):
            break
        paid = price * torch.special.ndtr((problem.gamma - u) / q)
        low, high = torch.where(u > at, torch.maximum(low, at), low), torch.where(u < at, torch.minimum(high, at), high)
        needs_more = solution.q < paid  # plans of this u are worth more to the term than they cost
        low = torch.where(needs_more, torch.maximum(low, u), low)
        high = torch.where(needs_more, high, torch.minimum(high, u))
        inside = (u >= low) & (u <= high) & ((u - at).abs() < 4 * q)
        at = torch.where(close, at, torch.where(inside, u, (low + high) / 2))
    assert solution is not None  # the loop has run
    lost = solution.converged & ~close
    status = torch.where(lost, int(Status.STEP_LIMIT), solution.status)
    return matched, replace(solution, status=status, gamma=problem.gamma)


def _matched(problem: RelaxedProblem, u: Tensor, price: Tensor, q: Tensor) -> RelaxedProblem:
    """The barrier problem whose slope and curvature at mean reliability u are those of the shortfall."""
    z = ((u - problem.gamma) / q).clamp_max(_FAR)
    worth = price * torch.special.ndtr(-z)
    slack = q * (torch.special.ndtr(-z) / density(z).clamp_min(1.0 / _WIDEST)).clamp_max(_WIDEST)
    lam = torch.maximum(worth * slack, _LEAST * problem.tau)
    return replace(problem, gamma=u - lam / worth, lam=lam)

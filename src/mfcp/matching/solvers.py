"""The relaxed argmin of every round with a status; a round that cannot be solved never touches the others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from mfcp.errors import InfeasibleError, SolverError
from mfcp.matching.dual import Rounds, newton_matrix, simplex_solve, solve_dual
from mfcp.matching.objective import RelaxedProblem, round_name

TOLERANCE = 1e-10  # of the relative optimality residual; Newton converges quadratically, so it costs one step
FLOOR = 1e-6  # a round that rounding errors stop above this residual is not called converged
MAX_STEPS = 200
_EDGE = 1e-13  # gamma closer to the edge than this cannot be told from infeasible in double precision


class Status(IntEnum):
    """How the solve of one round ended."""

    CONVERGED = 0
    STEP_LIMIT = 1
    INFEASIBLE = 2


@dataclass(frozen=True)
class RelaxedSolution:
    """The relaxed plans of a batch of rounds and what is known of them.

    Attributes:
        X: (..., M, N) plans, columns sum to one; in an infeasible round the most reliable one.
        p: (..., M) price of a second on each cluster, on the simplex.
        q: (...) price of a missing unit of mean reliability, seconds; inf in an infeasible round.
        status: (...) int64 of `Status`.
        steps: (...) int64 Newton steps.
        residual: (...) largest violation of optimality, relative to the largest term of the gradient.
        reachable: (...) largest mean reliability that any plan reaches.
        gamma: (...) the level that was asked for.
    """

    X: Tensor
    p: Tensor
    q: Tensor
    status: Tensor
    steps: Tensor
    residual: Tensor
    reachable: Tensor
    gamma: Tensor

    @property
    def converged(self) -> Tensor:
        """(...) True where X is the optimum; elsewhere X carries no gradient."""
        return self.status == Status.CONVERGED

    def require(self) -> RelaxedSolution:
        """This solution, if every round converged.

        Raises:
            InfeasibleError: names the first round whose gamma is out of reach, with both numbers.
            SolverError: names the first round that hit the step limit, with its residual.
        """
        status = self.status.reshape(-1)
        for kind in (Status.INFEASIBLE, Status.STEP_LIMIT):
            if not bool((status == kind).any()):
                continue
            where = int((status == kind).nonzero()[0])
            name = round_name(where, self.status.shape)
            M, N = self.X.shape[-2:]
            if kind == Status.INFEASIBLE:
                raise InfeasibleError(
                    f"{name} ({M} clusters, {N} tasks): best reachable mean reliability "
                    f"{self.reachable.reshape(-1)[where]:.6g}, gamma {self.gamma.reshape(-1)[where]:.6g}; "
                    "lower gamma or add a cluster"
                )
            raise SolverError(
                f"{name} ({M} clusters, {N} tasks): relative residual {self.residual.reshape(-1)[where]:.2g} after "
                f"{int(self.steps.reshape(-1)[where])} Newton steps; raise max_steps, tau or lam"
            )
        return self


def solve_relaxed(
    problem: RelaxedProblem,
    *,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    start: tuple[Tensor, Tensor] | None = None,
) -> RelaxedSolution:
    """Flat (B, …) relaxed plans, without gradients; see `relaxed_solution` for the arguments."""
    T, A = problem.T.detach(), problem.A.detach()
    N = T.shape[2]
    best = A.amax(1, keepdim=True)
    reachable = best.mean((1, 2))
    room = reachable - problem.gamma
    infeasible = room <= _EDGE
    d = (best - A) / N
    if problem.forbidden is not None:
        d = d.masked_fill(problem.forbidden, 0.0)
    unit = time_unit(problem)
    rounds = Rounds(
        T / unit[:, None, None],
        d,
        problem.forbidden,
        torch.where(infeasible, 1.0, room),
        problem.beta * unit,
        problem.lam / unit,
        problem.tau / unit,
    )
    first = None if start is None else (start[0], torch.where(start[1].isfinite(), start[1] / unit, 1.0))
    point = solve_dual(rounds, tolerance=tolerance, max_steps=max_steps, start=first)
    X, q = point.X, point.q * unit
    stuck = ~infeasible & ~(point.residual <= FLOOR)
    status = torch.where(infeasible, int(Status.INFEASIBLE), torch.where(stuck, int(Status.STEP_LIMIT), 0))
    if bool(infeasible.any()):
        X = torch.where(infeasible[:, None, None], most_reliable(problem), X)
        q = torch.where(infeasible, torch.inf, q)
    return RelaxedSolution(X, point.log_p.exp(), q, status, point.steps, point.residual, reachable, problem.gamma)


def most_reliable(problem: RelaxedProblem) -> Tensor:
    """(B, M, N) each task on its most reliable allowed clusters, shared equally where several tie."""
    A = problem.A.detach()
    if problem.forbidden is not None:
        A = A.masked_fill(problem.forbidden, -1.0)
    top = (A.amax(1, keepdim=True) == A).to(A.dtype)
    return top / top.sum(1, keepdim=True)


def time_unit(problem: RelaxedProblem) -> Tensor:
    """(B,) seconds: the makespan if every task ran on its fastest cluster and loads were balanced."""
    T = problem.T.detach()
    fastest = T if problem.forbidden is None else T.masked_fill(problem.forbidden, torch.inf)
    unit = fastest.amin(1).sum(1) / T.shape[1]
    return torch.where(unit > 0, unit, 1.0)


def respond(problem: RelaxedProblem, solution: RelaxedSolution, G: Tensor) -> tuple[Tensor, Tensor]:
    """Vector-Jacobian product of the relaxed argmin: (dL/dT, dL/dA) for dL/dX = G, all (B, M, N).

    The linear system is Eq. (15) reduced to M + 1 unknowns: with w the response of the plan and u, v those of the
    prices p, q to a tilt G of the objective, dL/dT = -(w p + X u) and dL/dA = (w q + X v) / N. Rounds that did not
    converge get zeros.
    """
    T, A, X, p = problem.T.detach(), problem.A.detach(), solution.X, solution.p
    N = T.shape[2]
    good = solution.converged
    q = torch.where(good, solution.q, 1.0)
    d = (A.amax(1, keepdim=True) - A) / N
    rounds = Rounds(T, d, problem.forbidden, q, problem.beta, problem.lam, problem.tau)
    S, H = newton_matrix(rounds, X, p, q, problem.beta, problem.lam, problem.tau)
    tilt = X * (G - (X * G).sum(1, keepdim=True))
    tau = problem.tau[:, None, None]
    moved = torch.cat([(T * tilt).sum(2), (d * tilt).sum((1, 2))[:, None]], 1) / problem.tau[:, None]
    price = simplex_solve(S, H, moved[:, :, None])[:, :, 0]
    u, v = price[:, :-1, None], price[:, -1][:, None, None]
    push = T * u + d * v
    w = (tilt - X * (push - (X * push).sum(1, keepdim=True))) / tau
    keep = good[:, None, None]
    zero = torch.zeros((), dtype=T.dtype, device=T.device)
    grad_T = torch.where(keep, -(w * p[:, :, None] + X * u), zero)
    grad_A = torch.where(keep, (w * q[:, None, None] + X * v) / N, zero)
    return grad_T, grad_A

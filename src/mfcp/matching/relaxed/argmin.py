"""The relaxed argmin of every round with a status; a round that cannot be solved never touches the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Literal

import torch
from torch import Tensor

from mfcp.errors import InfeasibleError, SettingsError, SolverError
from mfcp.matching.kernels.tuning import REFINEMENTS
from mfcp.matching.relaxed.dual_newton import solve_rounds
from mfcp.matching.relaxed.interior_point import Rounds
from mfcp.matching.relaxed.objective import RelaxedProblem, most_reliable, round_name
from mfcp.matching.relaxed.prices import newton_step

TOLERANCE = 1e-10  # of the relative optimality residual; Newton converges quadratically, so it costs one step
FLOOR = 1e-6  # a round that rounding errors stop above this residual is not called converged
MAX_STEPS = 150
RESTARTS = 8
Backend = Literal["auto", "torch", "compiled"]
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

    def repeated(self, times: int) -> RelaxedSolution:
        """A flat solution `times` over, round after round."""
        return self._each(lambda value: value.repeat(times, *(1,) * (value.ndim - 1)))

    def reshaped(self, batch: tuple[int, ...]) -> RelaxedSolution:
        """The same rounds under other leading dimensions."""
        kept = self.status.ndim
        return self._each(lambda value: value.reshape((*batch, *value.shape[kept:])))

    def _each(self, change: Callable[[Tensor], Tensor]) -> RelaxedSolution:
        return RelaxedSolution(*(change(getattr(self, f.name)) for f in fields(self)))

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
    start: RelaxedSolution | None = None,
    restarts: int = RESTARTS,
    backend: Backend = "auto",
) -> RelaxedSolution:
    """Flat (B, …) relaxed plans, without gradients; see `relaxed_solution` for the arguments."""
    reachable = problem.reachable_gamma().detach()
    room = reachable - problem.gamma
    infeasible = room <= _EDGE
    room = torch.where(infeasible, 1.0, room)  # such a round runs harmlessly and is overwritten
    first = None if start is None else (start.p, torch.where(start.q.isfinite(), start.q, 1.0))
    if problem.speedup is not None:
        from mfcp.matching.relaxed import parallel

        safe = replace(problem, gamma=torch.where(infeasible, 0.0, problem.gamma))
        point = parallel.solve_locally(
            safe,
            restarts=restarts,
            start=None if start is None else start.X,
            compiled=use_compiled(problem, backend),
        )
    elif use_compiled(problem, backend):
        from mfcp.matching.relaxed import compiled

        point = compiled.solve_rounds(problem, room, tolerance=tolerance, max_steps=max_steps, start=first)
    else:
        point = solve_rounds(_rounds(problem, room), tolerance=tolerance, max_steps=max_steps, start=first)
    X, q = point.X, point.q
    stuck = ~infeasible & ~(point.residual <= FLOOR)
    status = torch.where(infeasible, int(Status.INFEASIBLE), torch.where(stuck, int(Status.STEP_LIMIT), 0))
    if bool(infeasible.any()):
        X = torch.where(infeasible[:, None, None], most_reliable(problem), X)
        q = torch.where(infeasible, torch.inf, q)
    return RelaxedSolution(X, point.p, q, status, point.steps, point.residual, reachable, problem.gamma)


def use_compiled(problem: RelaxedProblem, backend: Backend) -> bool:
    """Whether the compiled kernels do this problem: by default on the CPU.

    Raises:
        SettingsError: unknown backend, or "compiled" for tensors on another device.
    """
    if backend not in ("auto", "torch", "compiled"):
        raise SettingsError(f"unknown backend '{backend}'; known: auto, torch, compiled")
    on_cpu = problem.T.device.type == "cpu"
    if backend == "compiled" and not on_cpu:
        raise SettingsError(f"backend 'compiled' is for the CPU, T is on {problem.T.device}; use backend 'auto'")
    return backend == "compiled" or (backend == "auto" and on_cpu)


def soonest(rounds: int) -> Backend:
    """The backend that solves so many rounds first: for a single one Torch's, until its kernel has been compiled.

    That takes seconds, and Torch milliseconds. They agree to more digits than a plan depends on.
    """
    from mfcp import compiling

    if rounds > 1 or compiling.is_ready(compiling.PRICES):
        return "auto"
    compiling.prepare_ahead([compiling.PRICES])
    return "torch"


def _rounds(problem: RelaxedProblem, room: Tensor) -> Rounds:
    T, A = problem.T.detach(), problem.A.detach()
    d = (A.amax(1, keepdim=True) - A) / T.shape[2]
    if problem.forbidden is not None:
        d = d.masked_fill(problem.forbidden, 0.0)
    return Rounds(T, d, problem.forbidden, room, problem.beta, problem.lam, problem.tau)


def respond(
    problem: RelaxedProblem, solution: RelaxedSolution, G: Tensor, *, backend: Backend = "auto"
) -> tuple[Tensor, Tensor]:
    """Vector-Jacobian product of the relaxed argmin: (dL/dT, dL/dA) for dL/dX = G, all (B, M, N).

    A Newton step with G as the gradient of the objective: dX and dp, dq are what a tilt by G does to plan and
    prices, and the Jacobian is symmetric, so dL/dT = p dX + X dp and dL/dA = -(q dX + X dq) / N. Rounds that did not
    converge get zeros.
    """
    X, p, good = solution.X, solution.p, solution.converged
    if problem.speedup is not None:
        from mfcp.matching.relaxed import parallel

        return parallel.respond(problem, X, good, G)
    if use_compiled(problem, backend):
        from mfcp.matching.relaxed import compiled

        return compiled.respond(problem, X, p, torch.where(good, solution.q, torch.inf), G)
    q = torch.where(good, solution.q, 1.0)
    rounds = _rounds(problem, q)
    D = torch.cat([rounds.beta[:, None] * p, (q.square() / rounds.lam)[:, None]], 1)
    weights = X / rounds.tau[:, None, None]
    dX, dprices = newton_step(rounds.T, rounds.d, weights, D, G, torch.zeros_like(D), refinements=REFINEMENTS)
    grad_T = p[:, :, None] * dX + X * dprices[:, :-1, None]
    grad_A = -(q[:, None, None] * dX + X * dprices[:, -1][:, None, None]) / X.shape[2]
    keep = good[:, None, None]
    return torch.where(keep, grad_T, 0.0), torch.where(keep, grad_A, 0.0)

"""How the relaxed plan is differentiated, independent of how it is found: one class per rule.

The invariant of the implicit rule: `kkt_residual(X*, …; T, A) == 0`, Eq. (14) of [Huo2025]_.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from mfcp.errors import SolverError
from mfcp.matching.relaxed.argmin import Backend, RelaxedSolution, respond, solve_relaxed
from mfcp.matching.relaxed.mirror_descent import mirror_descent
from mfcp.matching.relaxed.objective import RelaxedProblem
from mfcp.registry import Registered

_LEAST_SHARE = 1e-3  # of a time that is left when a step takes away more
Randomness = torch.Generator | Sequence[torch.Generator]
"""Several generators share the rounds in equal consecutive blocks: what a block draws depends on its own alone."""


class Gradient(Registered):
    """Family of differentiation rules of X*(T, A)."""

    def attach(
        self, problem: RelaxedProblem, solution: RelaxedSolution, generator: Randomness | None, backend: Backend
    ) -> Tensor:
        """The plan (B, M, N) with this rule's derivative in `problem.T` and `problem.A`."""
        raise NotImplementedError


class Implicit(Gradient):
    """Exact derivative by the implicit function theorem: one structured solve in M + 1 unknowns.

    Eq. (7) of [Huo2025]_, the chain rule dL/dT = dL/dX · dX*/dT, with dX*/dT from the linear system (15) of the
    optimality conditions (14); the product is formed at once (`argmin.respond`), dX*/dT never.
    """

    name: ClassVar[str] = "implicit"

    def attach(
        self, problem: RelaxedProblem, solution: RelaxedSolution, generator: Randomness | None, backend: Backend
    ) -> Tensor:
        """See `Gradient.attach`."""
        rule = _ImplicitRule.apply
        return rule(problem.T, problem.A, problem, solution, backend)  # type: ignore[no-untyped-call,no-any-return]


class ZerothOrder(Gradient):
    """Algorithm 2 of [Huo2025]_, all perturbations of all rounds in one batched solve.

    The slope of <G, X*> along a random Gaussian direction v times v itself, averaged over `samples` directions; G is
    the incoming derivative of the loss. Directions differ between rounds and calls only through the generator: the
    same generator state gives the same directions (common random numbers). A perturbed round that cannot be solved
    is left out of the average; its count is the caller's `status` of the unperturbed one. Steps are on log t, which
    keeps times positive and treats long and short tasks alike; as printed they are on t (`perturbs: time`).
    """

    name: ClassVar[str] = "zeroth_order"
    samples: int = Field(16, ge=1, description="directions per round")
    delta: float = Field(0.02, gt=0, description="step on log t, or on t, and on a")
    perturbs: Literal["log_time", "time"] = Field("log_time", description="time: as printed, in the units of T")
    antithetic: bool = Field(True, description="central differences at twice the solves")
    seed: int = Field(0, description="of the directions, where no generator is given")

    def attach(
        self, problem: RelaxedProblem, solution: RelaxedSolution, generator: Randomness | None, backend: Backend
    ) -> Tensor:
        """See `Gradient.attach`."""
        if generator is None:
            generator = torch.Generator(problem.T.device).manual_seed(self.seed)
        draw = _Draw(self, generator, backend)
        rule = _ZerothOrderRule.apply
        return rule(problem.T, problem.A, problem, solution, draw)  # type: ignore[no-untyped-call,no-any-return]

    def estimate(
        self,
        problem: RelaxedProblem,
        solution: RelaxedSolution,
        G: Tensor,
        generator: Randomness,
        *,
        of: Literal["T", "A"],
        backend: Backend = "auto",
    ) -> Tensor:
        """(B, M, N) estimate of dL/dT (`of` = "T") or dL/dA ("A") for dL/dX = G."""
        v = _directions(self.samples, problem.T, generator)
        if problem.forbidden is not None:
            v = v.masked_fill(problem.forbidden, 0.0)
        ahead, ahead_good = self._loss(problem, solution, G, self.delta * v, of, backend)
        if self.antithetic:
            behind, behind_good = self._loss(problem, solution, G, -self.delta * v, of, backend)
            slope, good = (ahead - behind) / (2 * self.delta), ahead_good & behind_good
        else:
            slope, good = (ahead - (G * solution.X).sum((1, 2))) / self.delta, ahead_good
        good = good & solution.converged
        slope = torch.where(good, slope, 0.0) / good.sum(0).clamp_min(1)
        mean = torch.einsum("sb,sbmn->bmn", slope, v)
        in_logs = of == "T" and self.perturbs == "log_time"
        return mean / problem.T.detach().clamp_min(1e-300) if in_logs else mean

    def _loss(
        self,
        problem: RelaxedProblem,
        solution: RelaxedSolution,
        G: Tensor,
        step: Tensor,
        of: str,
        backend: Backend,
    ) -> tuple[Tensor, Tensor]:
        """<G, X*> (S, B) at perturbed inputs, and where the perturbed round was solved."""
        S, B = step.shape[:2]
        T = problem.T.detach().expand(step.shape)
        if of == "T":
            T = T * step.exp() if self.perturbs == "log_time" else torch.maximum(T + step, _LEAST_SHARE * T)
        A = (problem.A.detach() + step).clamp(0.0, 1.0) if of == "A" else problem.A.detach().expand(step.shape)
        many = problem.repeated(S, T.flatten(0, 1), A.flatten(0, 1))
        near = solve_relaxed(many, start=solution.repeated(S), backend=backend)
        return (near.X.reshape(step.shape) * G).sum((2, 3)), near.converged.reshape(S, B)


class Unrolled(Gradient):
    """The derivative of a fixed number of mirror descent steps, by autograd through them; the reference rule.

    X is then the plan after those steps, not the dual solver's; it can be differentiated twice.
    """

    name: ClassVar[str] = "unrolled"
    steps: int = Field(1000, ge=1)

    def attach(
        self, problem: RelaxedProblem, solution: RelaxedSolution, generator: Randomness | None, backend: Backend
    ) -> Tensor:
        """See `Gradient.attach`."""
        good = solution.converged
        gamma = torch.where(good, problem.gamma, 0.0)  # an infeasible round is descended harmlessly, then masked
        X = mirror_descent(dataclasses.replace(problem, gamma=gamma), self.steps)
        return torch.where(good[:, None, None], X, solution.X)


class _ImplicitRule(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, T: Tensor, A: Tensor, problem: RelaxedProblem, solution: RelaxedSolution, backend: Backend
    ) -> Tensor:
        X = solution.X.detach()
        ctx.save_for_backward(X)  # saved as an output: no cycle, and a change in place is noticed
        ctx.rest = problem, dataclasses.replace(solution, X=solution.X[:0]), backend
        return X

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Any:
        _first_only()
        problem, solution, backend = ctx.rest
        found = dataclasses.replace(solution, X=ctx.saved_tensors[0].detach())
        return *respond(problem, found, G, backend=backend), None, None, None


@dataclass(frozen=True)
class _Draw:
    rule: ZerothOrder
    generator: Randomness
    backend: Backend


class _ZerothOrderRule(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, T: Tensor, A: Tensor, problem: RelaxedProblem, solution: RelaxedSolution, draw: _Draw
    ) -> Tensor:
        ctx.saved = problem, solution, draw
        return solution.X.clone()

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Any:
        _first_only()
        problem, solution, draw = ctx.saved
        estimate = partial(draw.rule.estimate, problem, solution, G, draw.generator, backend=draw.backend)
        grad_T = estimate(of="T") if ctx.needs_input_grad[0] else None
        grad_A = estimate(of="A") if ctx.needs_input_grad[1] else None
        return grad_T, grad_A, None, None, None


def _directions(samples: int, like: Tensor, generator: Randomness) -> Tensor:
    """(S, B, M, N) standard normal numbers."""
    generators = [generator] if isinstance(generator, torch.Generator) else list(generator)
    shape = (samples, len(like) // len(generators), *like.shape[1:])
    drawn = [torch.randn(shape, dtype=like.dtype, device=g.device, generator=g).to(like.device) for g in generators]
    return torch.cat(drawn, dim=1)


def _first_only() -> None:
    if torch.is_grad_enabled():
        raise SolverError(
            "relaxed_matching has first derivatives only; call backward without create_graph, "
            "or use gradient=Unrolled()"
        )

"""How the relaxed plan is differentiated, independent of how it is found: one class per rule.

The invariant of the implicit rule: `kkt_residual(X*, nu, p, q; T, A) == 0`, Eq. (14) of [Huo2025]_.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from mfcp.errors import SolverError
from mfcp.matching.objective import RelaxedProblem
from mfcp.matching.solvers import RelaxedSolution, respond
from mfcp.registry import Registered


class Gradient(Registered):
    """Family of differentiation rules of X*(T, A)."""

    def attach(self, problem: RelaxedProblem, solution: RelaxedSolution, generator: torch.Generator | None) -> Tensor:
        """The plan (B, M, N) with this rule's derivative in `problem.T` and `problem.A`."""
        raise NotImplementedError


class Implicit(Gradient):
    """Exact derivative by the implicit function theorem, Eqs. (13)-(15): one structured solve, M + 1 unknowns."""

    name: ClassVar[str] = "implicit"

    def attach(self, problem: RelaxedProblem, solution: RelaxedSolution, generator: torch.Generator | None) -> Tensor:
        """See `Gradient.attach`."""
        return _ImplicitRule.apply(problem.T, problem.A, problem, solution)  # type: ignore[no-untyped-call,no-any-return]


class _ImplicitRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, T: Tensor, A: Tensor, problem: RelaxedProblem, solution: RelaxedSolution) -> Tensor:
        ctx.problem, ctx.solution = problem, solution
        return solution.X.clone()

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise SolverError(
                "relaxed_matching has first derivatives only; call backward without create_graph, "
                "or differentiate gradient=Unrolled() twice"
            )
        return *respond(ctx.problem, ctx.solution, G), None, None

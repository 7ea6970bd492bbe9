"""Decision losses as torch modules: for a training loop of one's own, around any model of times and reliabilities.

The methods of this package train banks of predictors by the same losses; see `decision_focused` and `plan_losses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mfcp.errors import DataError, SettingsError
from mfcp.matching.planning import quick, solve_or_fall_back
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.regret import PRICE
from mfcp.matching.relaxed.gradients import Gradient, Randomness
from mfcp.matching.relaxed.objective import BETA, LAM, TAU, relaxed_problem
from mfcp.matching.relaxed.relaxed_plan import plan_in_units
from mfcp.matching.speedup import SpeedUp
from mfcp.methods.surrogates import Choice, PlanCosts, PlanLoss

Reduction = Literal["mean", "sum", "none"]

# 13 MB per array for 32 rounds × 10 seeds; `perturbed` holds some ten arrays times its 16 samples: 2 GB
MOST_PLANS = 10_000


class DecisionLoss(nn.Module):
    """MFCP of [Huo2025]_: what the relaxed plan of the predictions costs under the truth, Eqs. (7) and (12).

    The plan is X*(T̂, Â) of `relaxed_matching` with its default weights. Its cost is its makespan under T over the
    least makespan of the round, plus `price` times the reliability that it lacks under A: 1 is best, and the
    derivative reaches T̂ and Â through the matching. A model that starts from random weights learns little this way;
    train it first by an error of times and reliabilities, then go on with this loss.

    Args:
        gamma: least mean success probability of a round.
        price: makespans per unit of missing reliability.
        gradient: how the plan is differentiated, "implicit" (MFCP-AD), "zeroth_order" (MFCP-FG) or "unrolled"; a
            mapping with `kind` and settings, or a `Gradient`.
        generator: randomness of "zeroth_order"; default seeded by its `seed`, the same at every call.
        reduction: "mean" or "sum" over rounds, or "none".

    Attributes:
        failed: rounds of the last call whose predictions put gamma out of reach or that did not converge. They carry
            no gradient.

    Raises:
        SettingsError: unknown gradient or reduction.
    """

    def __init__(
        self,
        gamma: float,
        *,
        price: float = PRICE,
        gradient: str | Mapping[str, Any] | Gradient = "implicit",
        generator: Randomness | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.gamma, self.price, self.generator = gamma, price, generator
        self.gradient = Gradient.parse(gradient)
        self.reduction = _known(reduction)
        self.failed = 0

    def forward(self, T_hat: Tensor, A_hat: Tensor, T: Tensor, A: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The loss in makespans, a number or with reduction "none" (...).

        Args:
            T_hat, A_hat: (..., M, N) predicted seconds and success probabilities, differentiable.
            T, A: (..., M, N) their true values; where `allowed` is False they do not matter.
            allowed: (..., M, N) which pairs exist.

        Raises:
            DataError: shapes that differ; times or probabilities that are none.
        """
        T, A = _labels(T_hat, A_hat, T, A, allowed)
        problem = _problem(T, A, self.gamma, allowed)
        fastest = solve_or_fall_back(problem, quick(problem)).makespan
        solution = plan_in_units(
            T_hat, A_hat, self.gamma, allowed=allowed, gradient=self.gradient, generator=self.generator
        )
        self.failed = int((~solution.converged).sum())
        unit = torch.as_tensor(fastest, dtype=T.dtype, device=T.device)
        gamma = torch.as_tensor(self.gamma, dtype=T.dtype, device=T.device)
        loss = relaxed_cost(solution.X.to(T.dtype), T, A, gamma, unit, price=self.price)
        return _reduced(loss, self.reduction)


class SurrogateLoss(nn.Module):
    """A published loss for predict-then-optimise, over all M^N plans of a round; rounds must be small.

    With every plan at hand, matching is a linear problem whose costs are predicted: SPO+, Fenchel-Young, NCE, MAP,
    listwise ranking, black-box differentiation and I-MLE apply word for word (`mfcp.methods.surrogates`).

    Args:
        surrogate: "spo_plus", "fenchel_young", "perturbed", "nce", "map", "listwise", "blackbox", "imle", "softmin";
            a mapping with `kind` and settings, or a `PlanLoss`.
        gamma: least mean success probability of a round.
        price: makespans per unit of missing reliability.
        generator: randomness of those that draw; default torch's own.
        reduction: "mean" or "sum" over rounds, or "none".

    Raises:
        SettingsError: unknown surrogate or reduction.
    """

    def __init__(
        self,
        surrogate: str | Mapping[str, Any] | PlanLoss = "spo_plus",
        *,
        gamma: float,
        price: float = PRICE,
        generator: torch.Generator | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.surrogate = PlanLoss.parse(surrogate)
        self.gamma, self.price, self.generator = gamma, price, generator
        self.reduction = _known(reduction)

    def forward(self, T_hat: Tensor, A_hat: Tensor, T: Tensor, A: Tensor, allowed: Tensor | None = None) -> Tensor:
        """As `DecisionLoss.forward`.

        Raises:
            SettingsError: rounds of more than `MOST_PLANS` plans.
        """
        T, A = _labels(T_hat, A_hat, T, A, allowed)
        M, N = T.shape[-2:]
        if M**N > MOST_PLANS:
            raise SettingsError(
                f"SurrogateLoss looks at all {M}^{N} plans of a round, at most {MOST_PLANS}; "
                "train on smaller rounds, or by DecisionLoss"
            )
        for times, shares in ((T_hat, A_hat), (T, A)):
            relaxed_problem(
                times.detach(), shares.detach(), self.gamma, BETA, LAM, TAU, allowed
            )  # refuses what is none
        pairs = (1, -1, M, N)  # one seed
        exists = torch.ones(T.shape, dtype=torch.bool) if allowed is None else allowed.expand(T.shape)
        T_hat, A_hat, true_T, true_A, exists = (x.reshape(pairs) for x in (T_hat, A_hat, T, A, exists))
        cost = PlanCosts(torch.full(T_hat.shape[:2], self.gamma, dtype=T.dtype), exists, self.price)
        choice = Choice(T_hat, A_hat, cost, cost(T_hat, A_hat), cost(true_T, true_A))
        generators: list[Any] = [self.generator]  # None is torch's own
        return _reduced(self.surrogate.of(choice, generators).reshape(T.shape[:-2]), self.reduction)


def load_and_slack(
    X: Tensor, T: Tensor, A: Tensor, gamma: Tensor, speedup: SpeedUp | None = None
) -> tuple[Tensor, Tensor]:
    """Seconds (..., M) of every cluster under relaxed plans X (..., M, N), and reliability above gamma (...)."""
    load = (X * T).sum(-1)
    if speedup is not None:
        load = load * speedup(X.sum(-1))
    return load, (X * A).sum((-2, -1)) / X.shape[-1] - gamma


def relaxed_cost(
    X: Tensor,
    T: Tensor,
    A: Tensor,
    gamma: Tensor,
    fastest: Tensor,
    *,
    price: float,
    speedup: SpeedUp | None = None,
) -> Tensor:
    """(...) penalised cost of relaxed plans in units of `fastest` (...) seconds, differentiable in X.

    `mfcp.matching.regret.penalised_cost` for plans that share tasks out.
    """
    load, slack = load_and_slack(X, T, A, gamma, speedup)
    return load.amax(-1) / fastest + price * (-slack).clamp_min(0.0)


def _labels(T_hat: Tensor, A_hat: Tensor, T: Tensor, A: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """Labels in the precision of the predictions, 0 where a pair does not exist.

    Raises:
        DataError: a shape that differs.
    """
    for name, value in (("A_hat", A_hat), ("T", T), ("A", A)):
        if value.shape != T_hat.shape:
            raise DataError(
                f"{name} has shape {tuple(value.shape)} but T_hat has {tuple(T_hat.shape)}; (..., M, N) both"
            )
    T, A = (x.detach().to(T_hat.dtype) for x in (T, A))
    return (T, A) if allowed is None else (torch.where(allowed, T, 0.0), torch.where(allowed, A, 0.0))


def _problem(T: Tensor, A: Tensor, gamma: float, allowed: Tensor | None) -> MatchingProblem:
    times, shares = (np.asarray(x.double().cpu()) for x in (T, A))
    return MatchingProblem(times, shares, gamma, None if allowed is None else np.asarray(allowed.expand(T.shape).cpu()))


def _known(reduction: str) -> Reduction:
    if reduction not in ("mean", "sum", "none"):
        raise SettingsError(f"unknown reduction '{reduction}'; known: mean, sum, none")
    return reduction  # type: ignore[return-value]


def _reduced(loss: Tensor, reduction: Reduction) -> Tensor:
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()

"""MFCP: train the predictors through the matching, for the cost of the plan they lead to."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from mfcp.matching.relaxed.gradients import Gradient, Implicit
from mfcp.matching.relaxed.objective import BETA, LAM, TAU, balanced_makespan
from mfcp.matching.relaxed.relaxed_plan import relaxed_solution
from mfcp.matching.relaxed.shortfall import Shortfall
from mfcp.methods.finetuned import Finetuned, TrainingRounds
from mfcp.methods.losses import load_and_slack, relaxed_cost
from mfcp.registry import FamilyField
from mfcp.study.setting import Setting

_HARD = 0.002  # width of reliability over which the hard penalty's kink is rounded off, or it had no derivative


class DecisionFocused(Finetuned):
    """MFCP of [Huo2025]_: gradient descent on the decision's cost through X*(T̂, Â), Eqs. (7) and (12).

    The lower level is the relaxed matching of Eqs. (8)-(10), in the parallel regime of Eqs. (16)-(17), in units of
    each round's fastest balanced makespan. The upper level is by default the makespan of the relaxed plan under the
    labels, over the least of the round, plus the price of missing reliability: the metric, where Eq. (12), which is
    `upper: objective`, has a barrier that is infinite where a plan misses gamma (docs/decisions/0052).
    MFCP-AD and MFCP-FG are two values of `gradient`. All clusters' predictors learn from one plan made of predictions;
    Algorithm 2 holds the other clusters at their true values instead (`others: labels`), with a plan for each.
    """

    name: ClassVar[str] = "decision_focused"
    gradient: FamilyField[Gradient] = Implicit()
    others: Literal["predicted", "labels"] = Field(
        "predicted", description="times and reliabilities of other clusters while one's predictors learn"
    )
    cost: Literal["makespan", "total"] = Field("makespan", description="total: ablation with the summed time")
    upper: Literal["cost", "objective"] = Field("cost", description="objective: F of Eq. (12) under the labels")
    penalty: Literal["barrier", "hard"] = Field(
        "barrier", description="hard: price · max(0, gamma - g) at the lower level"
    )
    beta: float = Field(BETA, gt=0, description="sharpness of the smooth maximum, per unit of time")
    lam: float = Field(LAM, gt=0, description="weight of the reliability barrier")
    tau: float = Field(TAU, gt=0, description="weight of the entropy")

    def decision_loss(
        self, rounds: TrainingRounds, setting: Setting, generators: list[torch.Generator]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See `Finetuned.decision_loss`: the upper level of the relaxed plans.

        Rounds whose predictions put gamma out of reach, or that the solver gives up on, do not stop training: they
        are counted, and carry a zero gradient.
        """
        if self.others == "labels":
            rounds = rounds.one_predicted()
        unit = balanced_makespan(rounds.T_hat.detach(), rounds.allowed)[..., None, None]
        hard = Shortfall(setting.price, _HARD) if self.penalty == "hard" else None
        solution = relaxed_solution(
            rounds.T_hat / unit, rounds.A_hat, rounds.gamma, beta=self.beta, lam=self.lam, tau=self.tau,
            allowed=rounds.allowed, gradient=self.gradient, generator=generators, speedup=setting.speedup,
            shortfall=hard,
        )  # fmt: skip
        failed = 1.0 - solution.converged.double().mean(1)
        return self._upper_level(solution.X, rounds, setting), {"solver.failed_fraction": failed}

    def _upper_level(self, X: Tensor, rounds: TrainingRounds, setting: Setting) -> Tensor:
        """(S, R) cost of relaxed plans X (S, R, M, N) under the labels, in optimal makespans.

        `upper: objective` is Eq. (12) without its constants (the optimum's own F, 1/N): smooth makespan and barrier
        -lam log g, g = reliability - gamma. Where the plan misses gamma that barrier is infinite and tells no
        direction; it is followed down to the g at which its slope is the price of missing reliability, and below
        that goes on along its tangent.
        """
        if self.cost == "makespan" and self.upper == "cost":
            known = (rounds.T, rounds.A, rounds.gamma, rounds.fastest)
            return relaxed_cost(X, *known, price=setting.price, speedup=setting.speedup)
        load, g = load_and_slack(X, rounds.T, rounds.A, rounds.gamma, setting.speedup)
        if self.cost == "total":
            span = load.sum(2) / setting.clusters / rounds.fastest
        else:
            span = torch.logsumexp(self.beta * load / rounds.fastest[..., None], 2) / self.beta
        if self.upper == "cost":
            return span + setting.price * (-g).clamp_min(0.0)
        least = self.lam / max(setting.price, self.lam)  # lam / least = price; a barrier never ends above g = 1
        return span - self.lam * (g.clamp_min(least).log() + (g - least).clamp_max(0.0) / least)

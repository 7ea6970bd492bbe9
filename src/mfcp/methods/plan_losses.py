"""Train the predictors through the choice among all plans, by any published loss for linear problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mfcp.errors import SettingsError
from mfcp.methods.base import FinetuneSettings, Learned
from mfcp.methods.finetuned import Finetuned, TrainingRounds
from mfcp.methods.losses import MOST_PLANS
from mfcp.methods.pretrain import Pretrained
from mfcp.methods.surrogates import Choice, ExpectedCosts, PlanCosts, PlanLoss, SpoPlus
from mfcp.registry import FamilyField
from mfcp.rules.base import Rule
from mfcp.rules.priced import Priced
from mfcp.study.setting import Setting


class PlanLosses(Finetuned):
    """Decision-focused training by a loss over all M^N plans (docs/decisions/0071), decided by the rule it trains for.

    Costs are penalised ones at the user's price, under the predictions and under the labels alike, so that the plan
    of least predicted cost is that of the rule `priced`. Under a rule that uses the calibrated spread
    (`expected_cost`) the predicted costs are expected ones: training on top of that rule.
    """

    name: ClassVar[str] = "plan_loss"
    surrogate: FamilyField[PlanLoss] = SpoPlus()
    rule: FamilyField[Rule] = Priced()

    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Learned, dict[str, np.ndarray]]:
        """See `Method.learn`.

        Raises:
            SettingsError: more plans than fit into memory for all rounds of a step.
        """
        M, N = setting.clusters, settings.tasks or setting.matching.tasks
        if M**N > MOST_PLANS:
            raise SettingsError(
                f"method 'plan_loss' looks at all {M}^{N} plans of a round, at most {MOST_PLANS}; "
                "lower finetune.tasks, or train by 'decision_focused'"
            )
        return super().learn(setting, base, settings, advance)

    def decision_loss(
        self, rounds: TrainingRounds, setting: Setting, generators: list[torch.Generator]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See `Finetuned.decision_loss`."""
        # single precision: a step is bound by memory, and a plan's cost needs no more digits to be trained on
        zeta = None if setting.zeta is None else torch.as_tensor(setting.zeta).float()
        known = (rounds.gamma.float(), rounds.allowed, setting.price, zeta)
        cost = PlanCosts(*known)
        believed = cost
        if self.rule.uses_spread:
            believed = ExpectedCosts(*known, rounds.log_sd.float(), rounds.a_sd.float())
        T_hat, A_hat, T, A = (x.float() for x in (rounds.T_hat, rounds.A_hat, rounds.T, rounds.A))
        choice = Choice(T_hat, A_hat, believed, believed(T_hat, A_hat), cost(T, A))
        return self.surrogate.of(choice, generators).double(), {}

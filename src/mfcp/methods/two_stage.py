"""TSM: predict as well as possible, then match; the pretrained heads as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mfcp.data.study import Setting
from mfcp.methods.base import FinetuneRules, Method
from mfcp.methods.pretrain import Pretrained
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.heads import Heads, Loss


class TwoStage(Method):
    """The two-stage method of [Huo2025]_, trained by squared error of t or of log t (Eq. (1)).

    UCB, margins and expected-cost matching are this method with another rule.
    """

    name: ClassVar[str] = "two_stage"
    loss: Loss = "log_time"

    def learn(
        self, setting: Setting, base: Pretrained, rules: FinetuneRules, advance: Callable[[], Any]
    ) -> tuple[Heads, dict[str, np.ndarray]]:
        """See `Method.learn`; nothing is left to learn."""
        return base.start(setting, self.loss), {}

    def spread(self, setting: Setting, base: Pretrained) -> Calibration:
        """The out-of-fold spread of the pretrained heads, where the rule uses one."""
        return base.spread(self.loss) if self.rule.uses_spread else super().spread(setting, base)

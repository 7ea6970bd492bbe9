"""TSM: predict as well as possible, then match; the pretrained heads as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.methods.base import FinetuneSettings, Learned, Method
from mfcp.methods.pretrain import Pretrained, spread_of
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.heads import Loss
from mfcp.study.setting import Setting


class TwoStage(Method):
    """The two-stage method of [Huo2025]_, trained by squared error of t or of log t (Eq. (1)).

    UCB, margins and expected-cost matching are this method with another rule; ensembles, trees and stacks are it with
    the mean of other predictors (`forecasts`).
    """

    name: ClassVar[str] = "two_stage"
    loss: Loss = "log_time"
    forecasts: tuple[str, ...] = Field((), description="names under pretrain.forecasts; empty: the heads of `loss`")

    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Learned, dict[str, np.ndarray]]:
        """See `Method.learn`; nothing is left to learn."""
        return (base.mixture(self.forecasts) if self.forecasts else base.start(setting, self.loss)), {}

    def spread(self, setting: Setting, base: Pretrained, learned: Learned) -> Calibration:
        """The out-of-fold spread of the predictors, where the rule uses one."""
        if not self.rule.uses_spread:
            return super().spread(setting, base, learned)
        return spread_of(setting, *base.left_out(self.forecasts)) if self.forecasts else base.spread(self.loss)

"""TSM: predict as well as possible, then match; the pretrained heads as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from mfcp.methods.base import FinetuneSettings, Learned, Method
from mfcp.methods.pretrain import Pretrained, PretrainSettings, Weights, only, spread_of
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.forecast import OutOfFold
from mfcp.predictors.heads import Loss
from mfcp.study.setting import Setting


class TwoStage(Method):
    """The two-stage method of [Huo2025]_, trained by squared error of t or of log t (Eq. (1)).

    UCB, margins and expected-cost matching are this method with another rule; ensembles, trees and stacks are it with
    a weighted mean of other predictors (`forecasts`).
    """

    name: ClassVar[str] = "two_stage"
    loss: Loss = "log_time"
    forecasts: tuple[str, ...] = Field((), description="names under pretrain.forecasts; empty: the heads of `loss`")
    weights: Weights = Field("out_of_fold", description="of several forecasts")

    def needs(self, settings: PretrainSettings) -> dict[str, Any]:
        """See `Method.needs`."""
        return only(settings, self.loss, self.forecasts)

    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Learned, dict[str, np.ndarray]]:
        """See `Method.learn`; nothing is left to learn."""
        if not self.forecasts:
            return base.start(setting, self.loss), {}
        return base.mixture(setting, self.forecasts, self.weights)[0], {}

    def out_of_fold(self, setting: Setting, base: Pretrained, learned: Learned) -> OutOfFold | None:
        """See `Method.out_of_fold`; of forecasts."""
        return base.mixture(setting, self.forecasts, self.weights)[1] if self.forecasts else None

    def spread(self, setting: Setting, base: Pretrained, left_out: OutOfFold | None) -> Calibration:
        """See `Method.spread`."""
        if not self.rule.uses_spread:
            return super().spread(setting, base, left_out)
        return base.spread(self.loss) if left_out is None else spread_of(setting, left_out)

"""Ceilings: what matching would cost if times, reliabilities, or both were known. Not a method that one can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from mfcp.methods.base import FinetuneSettings, Learned
from mfcp.methods.pretrain import Pretrained
from mfcp.methods.two_stage import TwoStage
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.forecast import OracleForecast
from mfcp.study.setting import Setting


class Oracle(TwoStage):
    """The truth of every task, test tasks included, in place of what is predicted.

    Where the emulator knows a pair's expected time and reliability, that is the truth; on measured logs it is the
    observed mean. What the oracle does not know comes from the two-stage predictors.
    """

    name: ClassVar[str] = "oracle"
    knows: Literal["time", "reliability", "both"] = Field("both")

    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Learned, dict[str, np.ndarray]]:
        """See `Method.learn`; a table of every task."""
        predicted, history = super().learn(setting, base, settings, advance)
        with torch.no_grad():
            T, A = predicted(torch.as_tensor(setting.Z))
        allowed = torch.as_tensor(setting.allowed)
        if self.knows != "reliability":
            T = torch.where(allowed, torch.as_tensor(setting.T_true), T)
        if self.knows != "time":
            A = torch.where(allowed, torch.as_tensor(setting.A_true), A)
        return OracleForecast(T, A), history

    def spread(self, setting: Setting, base: Pretrained, learned: Learned) -> Calibration:
        """See `Method.spread`; nothing where the truth is known."""
        own = super().spread(setting, base, learned)
        if self.knows != "reliability":
            own = replace(own, log_sd=np.zeros_like(own.log_sd))
        return own if self.knows == "time" else replace(own, a_sd=np.zeros_like(own.a_sd))

"""Ceilings: what matching would cost if times, reliabilities, or both were known. Not a method that one can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from mfcp.methods.base import FinetuneSettings, Learned, predict
from mfcp.methods.pretrain import Pretrained
from mfcp.methods.two_stage import TwoStage
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.forecast import OracleForecast, OutOfFold
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
        T, A = (torch.as_tensor(x) for x in predict(predicted, setting.Z, setting.operator_times))
        allowed = torch.as_tensor(setting.allowed)
        if self.knows != "reliability":
            T = torch.where(allowed, torch.as_tensor(setting.T_true), T)
        if self.knows != "time":
            A = torch.where(allowed, torch.as_tensor(setting.A_true), A)
        return OracleForecast(T, A), history

    def out_of_fold(self, setting: Setting, base: Pretrained, learned: Learned) -> OutOfFold | None:
        """See `Method.out_of_fold`; of what is predicted, the truth standing in for the rest."""
        own = super().out_of_fold(setting, base, learned)
        if own is None:
            return None
        known = own.known[:, None] & setting.allowed
        truth = np.log(np.where(setting.allowed, setting.T_true, 1.0)), setting.A_true
        log_time = own.log_time if self.knows == "reliability" else np.where(known, truth[0], own.log_time)
        share = own.reliability if self.knows == "time" else np.where(known, truth[1], own.reliability)
        return OutOfFold(log_time, share, own.known)

    def spread(self, setting: Setting, base: Pretrained, left_out: OutOfFold | None) -> Calibration:
        """See `Method.spread`; nothing where the truth is known."""
        own = super().spread(setting, base, left_out)
        if self.knows != "reliability":
            own = replace(own, log_sd=np.zeros_like(own.log_sd), own_sd=np.zeros_like(own.own_sd))
        return own if self.knows == "time" else replace(own, a_sd=np.zeros_like(own.a_sd))

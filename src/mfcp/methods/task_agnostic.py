"""TAM: every task takes a cluster's average time and reliability, whatever the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch

from mfcp.methods.base import FinetuneSettings, Method
from mfcp.methods.pretrain import Pretrained, PretrainSettings, new_heads, only
from mfcp.predictors.heads import Heads
from mfcp.predictors.linear import Linear
from mfcp.study.setting import Setting


class TaskAgnostic(Method):
    """Task-agnostic matching of [Huo2025]_: the mean over training tasks stands for every task."""

    name: ClassVar[str] = "task_agnostic"

    def needs(self, settings: PretrainSettings) -> dict[str, Any]:
        """See `Method.needs`; nothing."""
        return only(settings, None)

    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Heads, dict[str, np.ndarray]]:
        """See `Method.learn`; constant heads."""
        heads = new_heads(setting, Linear())
        known = setting.mask("train")
        count = np.maximum(known.sum(-1), 1)
        mean_t = np.where(known, np.nan_to_num(setting.T), 0.0).sum(-1) / count
        mean_a = np.where(known, np.nan_to_num(setting.A), 0.0).sum(-1) / count
        with torch.no_grad():
            for parameter in heads.parameters():
                parameter.zero_()
            heads.centre.copy_(torch.as_tensor(np.log(mean_t)))
            heads.logit.copy_(torch.logit(torch.as_tensor(np.clip(mean_a, 1e-6, 1 - 1e-6))))
        return heads, {}

"""TAM: every task takes a cluster's average time and reliability, whatever the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch

from mfcp.arrays import Bools, Floats
from mfcp.methods.base import FinetuneSettings, Method
from mfcp.methods.pretrain import Pretrained, PretrainSettings, new_heads, only
from mfcp.predictors.heads import Heads
from mfcp.predictors.linear import Linear
from mfcp.study.setting import Setting


class TaskAgnostic(Method):
    """Task-agnostic matching of [Huo2025]_: the mean over training tasks stands for every task.

    A cluster that has run none of them is taken to be like the others: it has the mean over all known pairs.
    """

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
        mean_t, mean_a = (_means(np.where(known, np.nan_to_num(x), 0.0), known) for x in (setting.T, setting.A))
        with torch.no_grad():
            for parameter in heads.parameters():
                parameter.zero_()
            heads.centre.copy_(torch.as_tensor(np.log(mean_t)))
            heads.logit.copy_(torch.logit(torch.as_tensor(np.clip(mean_a, 1e-6, 1 - 1e-6))))
        return heads, {}


def _means(values: Floats, known: Bools) -> Floats:
    """(S, M) means of (S, M, n) values over known tasks, of a cluster without any over all pairs."""
    count = known.sum(-1)
    over_all = values.sum((1, 2)) / np.maximum(known.sum((1, 2)), 1)
    result: Floats = np.where(count > 0, values.sum(-1) / np.maximum(count, 1), over_all[:, None])
    return result

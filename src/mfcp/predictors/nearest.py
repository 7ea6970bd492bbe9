"""The nearest tasks that a cluster has run: what MLaaS in the wild and GENIE do with metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.predictors.forecast import Forecast, Forecaster, OutOfFold, TaskInputs, TrainingData

_LEAST = 1e-3  # of a probability and of its complement


class Nearest(Forecaster):
    """Mean log seconds and success share of the nearest training tasks, by distance of standardised features.

    A cluster's neighbours are tasks that ran there. Out-of-fold predictions leave out the whole fold.
    """

    name: ClassVar[str] = "nearest"
    neighbours: int = Field(5, ge=1)

    def fit(self, data: TrainingData, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """See `Forecaster.fit`."""
        known = torch.as_tensor(data.train)
        log_time = torch.as_tensor(data.T).log().where(known, torch.zeros(()))
        share = torch.as_tensor(data.A).where(known, torch.zeros(()))
        Z, fold = torch.as_tensor(data.Z), torch.as_tensor(data.fold)
        model = _Neighbours(self.neighbours, Z, log_time, share, known)
        log_t, a = model.means(Z, same=fold)
        inside = (fold >= 0)[:, None]
        log_t, a = (torch.where(inside, values, 0.0) for values in (log_t, a))
        advance()
        return Forecast(model, OutOfFold(log_t.numpy(), a.numpy(), data.fold >= 0))

    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """See `Forecaster.restored`."""
        return _Neighbours(self.neighbours, state["Z"], state["log_time"], state["share"], state["known"])


class _Neighbours(nn.Module):
    Z: Tensor
    log_time: Tensor
    share: Tensor
    known: Tensor

    def __init__(self, neighbours: int, Z: Tensor, log_time: Tensor, share: Tensor, known: Tensor) -> None:
        """Features (S, n, d) of tasks, and (S, M, n) what is known of them, zero where `known` is not set."""
        super().__init__()
        self.neighbours = neighbours
        for name, value in {"Z": Z, "log_time": log_time, "share": share, "known": known}.items():
            self.register_buffer(name, value.clone())

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Log seconds and probabilities, each (S, M, n)."""
        return self.means(inputs.Z)

    def means(self, Z: Tensor, same: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(S, M, m) means over the nearest known tasks of features Z (S, m, d); none of the `same` (S, n) fold."""
        distance = torch.cdist(Z, self.Z, compute_mode="donot_use_mm_for_euclid_dist")[:, None]
        usable = self.known[:, :, None].expand(-1, -1, Z.shape[1], -1)
        if same is not None:
            usable = usable & (same[:, :, None] != same[:, None, :])[:, None]
        far = distance.masked_fill(~usable, torch.inf)
        gap, at = far.topk(min(self.neighbours, far.shape[-1]), largest=False)
        weight = gap.isfinite().to(Z.dtype)
        weight = weight / weight.sum(-1, keepdim=True).clamp_min(1.0)

        def mean(values: Tensor) -> Tensor:
            return (values[:, :, None].expand(-1, -1, Z.shape[1], -1).gather(-1, at) * weight).sum(-1)

        return mean(self.log_time), mean(self.share).clamp(_LEAST, 1 - _LEAST)

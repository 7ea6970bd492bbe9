"""Fully connected networks with one hidden layer, as the paper's predictors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.predictors.base import Predictor, initial


class Mlp(Predictor):
    """One hidden tanh layer beside a linear path, per (member, cluster).

    tanh is smooth, hence the matching is differentiable everywhere; the linear path carries the power laws (log
    time against log FLOPs) beyond the training tasks, where tanh has saturated.
    """

    name: ClassVar[str] = "mlp"
    hidden: int = Field(32, ge=1, description="width of the hidden layer")

    def bank(self, features: int, clusters: int, seeds: Sequence[Sequence[int]]) -> nn.Module:
        """See `Predictor.bank`."""
        return _NetworkBank(features, clusters, self.hidden, seeds)


class _NetworkBank(nn.Module):
    def __init__(self, features: int, clusters: int, hidden: int, seeds: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.into = initial([(*s, 0) for s in seeds], (clusters, features, hidden), features**-0.5)
        self.bias = nn.Parameter(torch.zeros(len(seeds), clusters, hidden, dtype=torch.float64))
        self.skip = nn.Parameter(torch.zeros(len(seeds), clusters, features, dtype=torch.float64))
        self.out = initial([(*s, 1) for s in seeds], (clusters, hidden), hidden**-0.5)
        self.offset = nn.Parameter(torch.zeros(len(seeds), clusters, dtype=torch.float64))

    def forward(self, Z: Tensor) -> Tensor:
        """Z (K, n, d) → (K, M, n)."""
        hidden = torch.tanh(torch.matmul(Z[:, None], self.into) + self.bias[:, :, None])
        straight = torch.matmul(self.skip, Z.transpose(1, 2))
        return straight + torch.matmul(hidden, self.out[..., None])[..., 0] + self.offset[..., None]

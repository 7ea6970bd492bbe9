"""Linear predictors of log time and log-odds: the smallest thing that can work, and the line to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from mfcp.predictors.base import Predictor, initial


class Linear(Predictor):
    """One linear map per (member, cluster)."""

    name: ClassVar[str] = "linear"

    def bank(self, features: int, clusters: int, seeds: Sequence[Sequence[int]]) -> nn.Module:
        """See `Predictor.bank`."""
        return _LinearBank(features, clusters, seeds)


class _LinearBank(nn.Module):
    def __init__(self, features: int, clusters: int, seeds: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.weight = initial(seeds, (clusters, features), 0.1 * features**-0.5)
        self.offset = nn.Parameter(torch.zeros(len(seeds), clusters, dtype=torch.float64))

    def forward(self, Z: Tensor) -> Tensor:
        """Z (K, n, d) → (K, M, n)."""
        return torch.matmul(self.weight, Z.transpose(1, 2)) + self.offset[..., None]

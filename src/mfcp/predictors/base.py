"""The family of predictors: banks of independent networks, one per (member, cluster)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import nn

from mfcp.registry import Registered


class Predictor(Registered):
    """An architecture, built as a bank so that all seeds, folds and clusters train in one batched pass."""

    @abstractmethod
    def bank(self, features: int, clusters: int, seeds: Sequence[Sequence[int]]) -> nn.Module:
        """A bank mapping Z (K, n, d) to (K, M, n).

        Every parameter's first two axes are (K, M): the networks share nothing, so that training, early stopping
        and gradient clipping act on each alone, and member k's weights depend on `seeds[k]` only.

        Args:
            features: d.
            clusters: M.
            seeds: K seeds (sequences of integers), one per member.
        """


def initial(seeds: Sequence[Sequence[int]], shape: Sequence[int], scale: float) -> nn.Parameter:
    """(K, *shape) normal weights, member k drawn from its own seed alone."""
    import numpy as np

    drawn = [np.random.default_rng([*map(int, seed)]).normal(0.0, scale, tuple(shape)) for seed in seeds]
    return nn.Parameter(torch.as_tensor(np.stack(drawn), dtype=torch.float64))

"""Forecasts: predictors that need no gradient of the decision, with what they say of tasks they did not learn from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mfcp.arrays import Bools, Floats, Ints
from mfcp.registry import Registered


@dataclass(frozen=True)
class TrainingData:
    """What may be learned from: features and labels of tasks, and who is in which part.

    Attributes:
        Z: (S, n, d) standardised features, per seed.
        T, A: (M, n) seconds and success shares, nan where unknown.
        runs: (M, n) finished runs behind A.
        train, validation: (S, M, n) pairs to learn from and to stop on.
        fold: (S, n) fold of each training task, whole families together; -1 elsewhere.
        seeds: (S,) of everything random.
    """

    Z: Floats
    T: Floats
    A: Floats
    runs: Ints
    train: Bools
    validation: Bools
    fold: Ints
    seeds: tuple[int, ...]

    @property
    def folds(self) -> int:
        """F, the number of folds."""
        return int(self.fold.max()) + 1


@dataclass(frozen=True)
class Forecast:
    """A fitted predictor, and its predictions for training tasks by parts of it that did not see their family.

    Attributes:
        model: Z (S, n, d) → log seconds and success probabilities, each (S, M, n).
        log_time, reliability: (S, M, n) out of fold on training tasks, 0 elsewhere.
    """

    model: nn.Module
    log_time: Floats
    reliability: Floats


class Forecaster(Registered):
    """Family of predictors that are fitted once and never descended through."""

    @abstractmethod
    def fit(self, data: TrainingData, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """Learn every seed's tasks. Seeds share nothing: what one learns does not depend on its company.

        Args:
            data: features, labels, parts.
            advance: called `epochs()` times.
        """

    @abstractmethod
    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """The model of `fit` from its `state_dict`; a missing or misshapen array is a KeyError or RuntimeError."""

    def epochs(self) -> int:
        """How often `fit` calls `advance`."""
        return 1


class Mixture(nn.Module):
    """The mean of several forecasts, of log times and of probabilities; what a method that uses them learned."""

    def __init__(self, forecasters: Mapping[str, Forecaster], models: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.forecasters = dict(forecasters)
        self.models = nn.ModuleDict(models)

    def forward(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted seconds and success probabilities, each (S, M, n), for features Z (S, n, d)."""
        log_t, a = (torch.stack(values).mean(0) for values in zip(*(m(Z) for m in self.models.values()), strict=True))
        return log_t.exp(), a

    @staticmethod
    def restored(forecasters: Mapping[str, Forecaster], state: Mapping[str, Tensor]) -> Mixture:
        """The mixture from its `state_dict`; errors as `Forecaster.restored`."""
        models = {}
        for name, forecaster in forecasters.items():
            prefix = f"models.{name}."
            own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            models[name] = forecaster.restored(own)
        return Mixture(forecasters, models)


class OracleForecast(nn.Module):
    """A table in place of a prediction: seconds and probabilities (S, M, n) of tasks in the order of the features."""

    T: Tensor
    A: Tensor

    def __init__(self, T: Tensor, A: Tensor) -> None:
        super().__init__()
        self.register_buffer("T", T)
        self.register_buffer("A", A)

    def forward(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """The table, whatever the features."""
        return self.T, self.A


def out_of_fold(values: Floats, fold: Ints) -> Floats:
    """(S, M, n) from (S, F, M, n): each training task's value of its own fold's member, 0 for other tasks."""
    own = fold[:, None, :] == np.arange(values.shape[1])[:, None]  # (S, F, n)
    result: Floats = np.where(own[:, :, None], values, 0.0).sum(axis=1)
    return result

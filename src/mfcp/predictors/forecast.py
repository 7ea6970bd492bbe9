"""Forecasts: predictors that need no gradient of the decision, with what they say of tasks they did not learn from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.arrays import Bools, Floats, Ints
from mfcp.registry import Registered


@dataclass(frozen=True)
class TaskInputs:
    """What is known of n tasks before they run.

    Attributes:
        Z: (S, n, d) standardised features, per seed.
        operator_times: (S, M, n) log seconds that networks over operators predict, up to a constant per cluster; nan
            for a task without a graph. None where no such networks were trained.
    """

    Z: Tensor
    operator_times: Tensor | None = None

    @staticmethod
    def of(Z: Floats, operator_times: Floats | None) -> TaskInputs:
        """From arrays."""
        return TaskInputs(torch.as_tensor(Z), None if operator_times is None else torch.as_tensor(operator_times))


@dataclass(frozen=True)
class TrainingData:
    """What may be learned from: features and labels of tasks, and who is in which part.

    Attributes:
        Z: (S, n, d) standardised features, per seed.
        T, A: (M, n) seconds and success shares, nan where unknown.
        runs: (M, n) finished runs behind A.
        train: (S, M, n) pairs to learn from.
        validation: (S, M, n) pairs to stop on; none where those of validation tasks are learned.
        fold: (S, n) fold of each task to learn from, whole families together; -1 elsewhere.
        seeds: (S,) of everything random.
        operator_times: as in `TaskInputs`; of tasks to learn from, by networks that did not see their family.
    """

    Z: Floats
    T: Floats
    A: Floats
    runs: Ints
    train: Bools
    validation: Bools
    fold: Ints
    seeds: tuple[int, ...]
    operator_times: Floats | None = None
    _fitted: dict[Forecaster, Forecast] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def folds(self) -> int:
        """F, the number of folds."""
        return int(self.fold.max()) + 1

    def fitted(self, forecaster: Forecaster, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """What a forecaster learns of this data; each is fitted once, whoever asks for it."""
        if forecaster not in self._fitted:
            self._fitted[forecaster] = forecaster.fit(self, advance=advance)
        return self._fitted[forecaster]


@dataclass(frozen=True)
class OutOfFold:
    """Predictions for tasks with labels, by parts of a predictor that did not learn from their family.

    Attributes:
        log_time, reliability: (S, M, n) log seconds and success probabilities, 0 for other tasks.
        known: (S, n) which tasks these are.
    """

    log_time: Floats
    reliability: Floats
    known: Bools

    @staticmethod
    def weighted(parts: Sequence[OutOfFold], time_weight: Floats, reliability_weight: Floats) -> OutOfFold:
        """The weighted mean of K predictors' for tasks that all of them learned from; weights (S, K)."""
        known = np.logical_and.reduce([part.known for part in parts])
        log_time = sum(w[:, None, None] * part.log_time for w, part in zip(time_weight.T, parts, strict=True))
        share = sum(w[:, None, None] * part.reliability for w, part in zip(reliability_weight.T, parts, strict=True))
        log_time, share = (np.where(known[:, None], x, 0.0) for x in (log_time, share))
        return OutOfFold(log_time, share, known)


@dataclass(frozen=True)
class Forecast:
    """A fitted predictor, and its predictions for tasks that it learned from by parts of it that did not.

    Attributes:
        model: inputs of n tasks → log seconds and success probabilities, each (S, M, n).
        out_of_fold: of the tasks that it learned from.
    """

    model: nn.Module
    out_of_fold: OutOfFold


class Forecaster(Registered):
    """Family of predictors that are fitted once and never descended through."""

    validation: Literal["learned", "held_out"] = Field(
        "learned", description="labels of validation tasks: learned too, or only looked at to stop"
    )

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

    def needs(self) -> tuple[Forecaster, ...]:
        """Other forecasters that `fit` asks for; they are fitted before."""
        return ()

    def epochs(self) -> int:
        """How often `fit` calls `advance`."""
        return 1


class Mixture(nn.Module):
    """A weighted mean of K forecasts, of log times and of probabilities; what a method that uses them learned."""

    time_weight: Tensor
    reliability_weight: Tensor

    def __init__(
        self,
        forecasters: Mapping[str, Forecaster],
        models: Mapping[str, nn.Module],
        time_weight: Tensor,
        reliability_weight: Tensor,
    ) -> None:
        """Weights are (S, K), in the order of the models."""
        super().__init__()
        self.forecasters = dict(forecasters)
        self.models = nn.ModuleDict(models)
        self.register_buffer("time_weight", time_weight)
        self.register_buffer("reliability_weight", reliability_weight)

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Predicted seconds and success probabilities, each (S, M, n)."""
        log_t, a = (torch.stack(values) for values in zip(*(m(inputs) for m in self.models.values()), strict=True))
        time_weight, share_weight = (w.T[:, :, None, None] for w in (self.time_weight, self.reliability_weight))
        return (time_weight * log_t).sum(0).exp(), (share_weight * a).sum(0)

    @staticmethod
    def restored(forecasters: Mapping[str, Forecaster], state: Mapping[str, Tensor]) -> Mixture:
        """The mixture from its `state_dict`; errors as `Forecaster.restored`."""
        models = {}
        for name, forecaster in forecasters.items():
            prefix = f"models.{name}."
            own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            models[name] = forecaster.restored(own)
        return Mixture(forecasters, models, state["time_weight"], state["reliability_weight"])


def stacking_weights(predictions: Floats, labels: Floats) -> Floats:
    """(K,) weights of K predictors, not negative and summing to 1, of least squared error [Breiman1996]_.

    Args:
        predictions: (K, n) of each predictor, by parts that did not learn the labels; may be centred.
        labels: (n,) centred alike.

    .. [Breiman1996] L. Breiman, "Stacked regressions", Machine Learning 24, 1996.
    """
    from scipy.optimize import nnls

    heavy = 1e4 * max(float(np.abs(predictions).max(initial=0.0)), 1e-9) * len(labels) ** 0.5  # holds the sum to 1
    rows = np.vstack([predictions.T, np.full(len(predictions), heavy)])
    found = nnls(rows, np.append(labels, heavy))[0]
    weights: Floats = found / found.sum()
    return weights


class OracleForecast(nn.Module):
    """A table in place of a prediction: seconds and probabilities (S, M, n) of tasks in the order of the features."""

    T: Tensor
    A: Tensor

    def __init__(self, T: Tensor, A: Tensor) -> None:
        super().__init__()
        self.register_buffer("T", T)
        self.register_buffer("A", A)

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """The table, whatever the inputs."""
        return self.T, self.A


def of_own_fold(values: Floats, fold: Ints) -> Floats:
    """(S, M, n) from (S, F, M, n): each task's value of its own fold's member, 0 for tasks without a fold."""
    own = fold[:, None, :] == np.arange(values.shape[1])[:, None]  # (S, F, n)
    result: Floats = np.where(own[:, :, None], values, 0.0).sum(axis=1)
    return result

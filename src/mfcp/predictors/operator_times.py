"""Times of networks over operators as a forecast, and what stands in where a task has no graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mfcp.arrays import Bools
from mfcp.errors import SettingsError
from mfcp.predictors.forecast import Forecast, Forecaster, OutOfFold, TaskInputs, TrainingData
from mfcp.predictors.gaussian_process import GaussianProcess
from mfcp.registry import FamilyField


class OperatorForecast(Forecaster):
    """Times by `mfcp.tasks.timing.operator_times`, learned from all clusters of a log when features were made.

    What is learned here is one factor per cluster: the median of measured over predicted times. Operators say nothing
    of reliability. So that comes from another forecaster, and so do the times of tasks without an operator graph.
    """

    name: ClassVar[str] = "operator_times"
    validation: Literal["learned"] = "learned"
    fallback: FamilyField[Forecaster] = GaussianProcess()

    def needs(self) -> tuple[Forecaster, ...]:
        """See `Forecaster.needs`."""
        return (self.fallback,)

    def fit(self, data: TrainingData, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """See `Forecaster.fit`.

        Raises:
            SettingsError: no times of operators were learned with the features.
        """
        if data.operator_times is None:
            raise SettingsError(
                "forecast operator_times: the features hold no times by operators; set featurize.operator_times and "
                "run featurize again, or take the forecast out of pretrain.forecasts and of the methods that use it"
            )
        other = data.fitted(self.fallback)
        labels = np.log(np.where(data.train, data.T, 1.0))
        gap = np.where(data.train, labels - data.operator_times, np.nan)
        told: Bools = np.any(np.isfinite(gap), axis=2)
        level = np.zeros(told.shape)
        level[told] = np.nanmedian(gap[told], axis=1)
        known = (data.fold >= 0)[:, None]
        predicted = np.where(told[..., None], data.operator_times + level[..., None], np.nan)
        log_time = np.where(known & np.isfinite(predicted), predicted, other.out_of_fold.log_time)
        advance()
        model = _Leveled(torch.as_tensor(np.where(told, level, np.nan)), self.fallback, other.model)
        return Forecast(model, OutOfFold(log_time, other.out_of_fold.reliability, data.fold >= 0))

    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """See `Forecaster.restored`."""
        prefix = "other."
        own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        return _Leveled(state["level"], self.fallback, self.fallback.restored(own))


class _Leveled(nn.Module):
    level: Tensor

    def __init__(self, level: Tensor, fallback: Forecaster, other: nn.Module) -> None:
        """Level (S, M) of each cluster, nan where no training task has a graph and a time there."""
        super().__init__()
        self.register_buffer("level", level)
        self.fallback = fallback
        self.other = other

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Log seconds and probabilities, each (S, M, n)."""
        log_t, a = self.other(inputs)
        if inputs.operator_times is None:
            return log_t, a
        predicted = inputs.operator_times + self.level[..., None]
        return torch.where(predicted.isfinite(), predicted, log_t), a

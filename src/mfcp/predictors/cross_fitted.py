"""Cross-fitted ensembles of networks: every member leaves out a fold of families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.arrays import Floats, Ints
from mfcp.predictors.base import Predictor
from mfcp.predictors.forecast import Forecast, Forecaster, OutOfFold, TaskInputs, TrainingData, of_own_fold
from mfcp.predictors.heads import Heads, HeadTraining, Loss, fit
from mfcp.predictors.mlp import Mlp
from mfcp.registry import FamilyField


class CrossFitted(Forecaster):
    """One bank of heads per fold, trained without it; the mean of their log times and probabilities.

    A task's out-of-fold prediction is that of the one member which did not see its family. The member is trained on
    (F - 1)/F of the tasks, so the errors measured are, if anything, too large for the mean of all. Where labels of
    validation tasks are learned, members end with their last epoch, else with the best one on those labels.
    """

    name: ClassVar[str] = "cross_fitted"
    predictor: FamilyField[Predictor] = Mlp()
    training: HeadTraining = HeadTraining(epochs=150, lr=0.01, weight_decay=0.3)
    loss: Loss = Field("log_time", description="squared error of which the members are trained for")

    def epochs(self) -> int:
        """See `Forecaster.epochs`."""
        return self.training.epochs

    def fit(self, data: TrainingData, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """See `Forecaster.fit`; all seeds and folds train in one bank."""
        S, F = len(data.seeds), data.folds
        heads = self._heads(data.Z.shape[2], len(data.T), [(s, f + 1) for s in data.seeds for f in range(F)])
        left_out = torch.as_tensor(data.fold).repeat_interleave(F, 0) == torch.arange(F).repeat(S)[:, None]
        Z = torch.as_tensor(data.Z).repeat_interleave(F, 0)
        fit(
            heads,
            Z,
            torch.as_tensor(data.T),
            torch.as_tensor(data.A),
            torch.as_tensor(data.train).repeat_interleave(F, 0) & ~left_out[:, None],
            torch.as_tensor(data.validation).repeat_interleave(F, 0) if data.validation.any() else None,
            loss=self.loss,
            training=self.training,
            advance=advance,
        )
        mean = MeanOfFolds(heads, F)
        return Forecast(mean, mean.left_out(data.Z, data.fold))

    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """See `Forecaster.restored`."""
        members, clusters = state["heads.centre"].shape
        heads = self._heads(int(state["features"]), clusters, [(0,)] * members)
        model = MeanOfFolds(heads, int(state["folds"]))
        model.load_state_dict(dict(state))
        return model

    def _heads(self, features: int, clusters: int, seeds: list[tuple[int, ...]]) -> Heads:
        return Heads(self.predictor, features, clusters, seeds)


class MeanOfFolds(nn.Module):
    """The mean of F members of each seed, which stand one after another in the bank."""

    folds: Tensor
    features: Tensor

    def __init__(self, heads: Heads, folds: int) -> None:
        super().__init__()
        self.heads = heads
        self.register_buffer("folds", torch.tensor([folds]))
        self.register_buffer("features", torch.tensor([heads.features]))

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Mean log seconds and probabilities, each (S, M, n)."""
        log_t, a = (values.mean(1) for values in self._members(inputs.Z))
        return log_t, a

    def left_out(self, Z: Floats, fold: Ints) -> OutOfFold:
        """Predictions for tasks of (S, n) folds by the member that did not see them; features Z (S, n, d)."""
        with torch.no_grad():
            log_t, a = (of_own_fold(values.numpy(), fold) for values in self._members(torch.as_tensor(Z)))
        return OutOfFold(log_t, a, fold >= 0)

    def _members(self, Z: Tensor) -> Iterator[Tensor]:
        """(S, F, M, n) of log seconds and of probabilities."""
        F = int(self.folds)
        return (x.reshape(len(Z), F, *x.shape[1:]) for x in self.heads.log_forward(Z.repeat_interleave(F, 0)))

"""Cross-fitted ensembles of networks: every member leaves out a fold of families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.predictors.base import Predictor
from mfcp.predictors.forecast import Forecast, Forecaster, Lessons, out_of_fold
from mfcp.predictors.heads import Heads, HeadTraining, Loss, fit
from mfcp.predictors.mlp import Mlp
from mfcp.registry import FamilyField


class CrossFitted(Forecaster):
    """One bank of heads per fold, trained without it; the mean of their log times and probabilities.

    A training task's out-of-fold prediction is that of the one member which did not see its family. The member is
    trained on (F - 1)/F of the tasks, so the errors measured are, if anything, too large for the mean of all.
    """

    name: ClassVar[str] = "cross_fitted"
    predictor: FamilyField[Predictor] = Mlp()
    training: HeadTraining = HeadTraining(epochs=150, lr=0.01, weight_decay=0.3)
    loss: Loss = Field("log_time", description="squared error of which the members are trained for")

    def epochs(self) -> int:
        """See `Forecaster.epochs`."""
        return self.training.epochs

    def fit(self, lessons: Lessons, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """See `Forecaster.fit`; all seeds and folds train in one bank."""
        S, F = len(lessons.seeds), lessons.folds
        heads = self._heads(lessons.Z.shape[2], len(lessons.T), [(s, f + 1) for s in lessons.seeds for f in range(F)])
        left_out = torch.as_tensor(lessons.fold).repeat_interleave(F, 0) == torch.arange(F).repeat(S)[:, None]
        Z = torch.as_tensor(lessons.Z).repeat_interleave(F, 0)
        fit(
            heads,
            Z,
            torch.as_tensor(lessons.T),
            torch.as_tensor(lessons.A),
            torch.as_tensor(lessons.train).repeat_interleave(F, 0) & ~left_out[:, None],
            torch.as_tensor(lessons.validation).repeat_interleave(F, 0),
            loss=self.loss,
            training=self.training,
            advance=advance,
        )
        with torch.no_grad():
            values = (x.numpy().reshape(S, F, *x.shape[1:]) for x in heads.log_forward(Z))
        log_t, a = (out_of_fold(x, lessons.fold) for x in values)
        return Forecast(_Mean(heads, F), log_t, a)

    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """See `Forecaster.restored`."""
        members, clusters = state["heads.centre"].shape
        heads = self._heads(int(state["features"]), clusters, [(0,)] * members)
        model = _Mean(heads, int(state["folds"]))
        model.load_state_dict(dict(state))
        return model

    def _heads(self, features: int, clusters: int, seeds: list[tuple[int, ...]]) -> Heads:
        return Heads(self.predictor, features, clusters, seeds)


class _Mean(nn.Module):
    """The mean of F members of each seed, which stand one after another in the bank."""

    folds: Tensor
    features: Tensor

    def __init__(self, heads: Heads, folds: int) -> None:
        super().__init__()
        self.heads = heads
        self.register_buffer("folds", torch.tensor([folds]))
        self.register_buffer("features", torch.tensor([heads.features]))

    def forward(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Z (S, n, d) → mean log seconds and probabilities, each (S, M, n)."""
        F = int(self.folds)
        repeated = Z.repeat_interleave(F, 0)
        log_t, a = self.heads.log_forward(repeated)
        return tuple(x.reshape(len(Z), F, *x.shape[1:]).mean(1) for x in (log_t, a))  # type: ignore[return-value]

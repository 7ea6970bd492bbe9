"""Gradient-boosted trees of LightGBM: the strong standard on tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.arrays import Floats
from mfcp.errors import DataError, SettingsError
from mfcp.predictors.forecast import Forecast, Forecaster, OutOfFold, TaskInputs, TrainingData

if TYPE_CHECKING:
    from lightgbm import Booster

_OBJECTIVE = ("regression", "cross_entropy")  # of log seconds; of a share in [0, 1]


class BoostedTrees(Forecaster):
    """A booster per (seed, cluster) for log seconds and one for the success share; one thread, no sampling.

    Out-of-fold predictions are of boosters trained without the fold, as for every other task's family.
    """

    name: ClassVar[str] = "boosted_trees"
    trees: int = Field(100, ge=1)
    leaves: int = Field(15, ge=2)
    lr: float = Field(0.08, gt=0)
    least: int = Field(5, ge=1, description="tasks of a leaf")

    def fit(self, data: TrainingData, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """See `Forecaster.fit`.

        Raises:
            DataError: a cluster has too few tasks.
            SettingsError: LightGBM is not installed.
        """
        log_time = np.log(np.where(np.isfinite(data.T), data.T, 1.0))
        held = np.zeros((2, *data.train.shape))
        boosters: list[Booster] = []
        for s in range(len(data.seeds)):
            for i in range(len(data.T)):
                for target, label in enumerate((log_time[i], data.A[i])):
                    known = data.train[s, i]
                    boosters.append(self._booster(data.Z[s], label, known, target))
                    for f in range(data.folds):
                        own = data.fold[s] == f
                        part = self._booster(data.Z[s], label, known & ~own, target)
                        held[target, s, i, own] = part.predict(data.Z[s][own])
        advance()
        shape = (len(data.seeds), len(data.T), 2)
        model = _Boosters([b.model_to_string() for b in boosters], shape)
        return Forecast(model, OutOfFold(held[0], held[1], data.fold >= 0))

    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """See `Forecaster.restored`; LightGBM's own text format, parsed by LightGBM."""
        text = bytes(state["text"].numpy().tobytes()).decode("ascii")
        seeds, clusters, targets = state["shape"].tolist()
        return _Boosters(text.split(_END), (seeds, clusters, targets))

    def _booster(self, Z: Floats, label: Floats, known: np.ndarray, target: int) -> Booster:
        settings = {
            "objective": _OBJECTIVE[target],
            "learning_rate": self.lr,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
        }
        data = _lightgbm().Dataset(Z[known], label[known], params={"verbose": -1})
        try:
            booster: Booster = _lightgbm().train(settings, data, self.trees)
        except _lightgbm().basic.LightGBMError as error:
            raise DataError(
                f"boosted_trees: {int(known.sum())} tasks of a cluster, one fold of families left out, teach no trees "
                f"({' '.join(str(error).split())}); profile more tasks or raise pool.min_tasks_per_cluster"
            ) from None
        return booster


_END = "\0"


class _Boosters(nn.Module):
    text: Tensor
    shape: Tensor

    def __init__(self, texts: list[str], shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.boosters = [_lightgbm().Booster(model_str=text) for text in texts]
        encoded = np.frombuffer(_END.join(texts).encode("ascii"), np.uint8)
        self.register_buffer("text", torch.as_tensor(encoded.copy()))
        self.register_buffer("shape", torch.tensor(shape))

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Log seconds and probabilities, each (S, M, n)."""
        Z = inputs.Z
        S, M, targets = self.shape.tolist()
        values = np.stack([booster.predict(Z[k // (M * targets)].numpy()) for k, booster in enumerate(self.boosters)])
        both = torch.as_tensor(values.reshape(S, M, targets, -1))
        return both[:, :, 0], both[:, :, 1]


def _lightgbm() -> Any:
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise SettingsError(
            f"boosted_trees needs LightGBM, which cannot be loaded ({error}): pip install 'mfcp[baselines]', or "
            "drop it from pretrain.forecasts and the methods that use it"
        ) from None
    return lightgbm

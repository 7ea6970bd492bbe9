"""Rounds as a torch data set, and what a model's plans for them are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset, Subset

from mfcp.errors import DataError
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.regret import PRICE


class MatchingDataset(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Rounds of N tasks on M clusters with what is known of each task; an item is (features, T, A) of one round.

    Args:
        features: (R, N, F) what a predictor sees of each task.
        T: (R, M, N) true seconds.
        A: (R, M, N) true success probabilities.
        gamma: least mean success probability asked of a round's plan.

    Raises:
        DataError: shapes that do not belong together; times or probabilities that are none.
    """

    def __init__(
        self, features: ArrayLike | Tensor, T: ArrayLike | Tensor, A: ArrayLike | Tensor, gamma: float
    ) -> None:
        self.features, self.T, self.A = (torch.as_tensor(x, dtype=torch.get_default_dtype()) for x in (features, T, A))
        self.gamma = float(gamma)
        if self.features.ndim != 3 or self.T.ndim != 3:
            raise DataError(
                f"features and T have shapes {tuple(self.features.shape)} and {tuple(self.T.shape)}; "
                "give (R, N, F) and (R, M, N)"
            )
        R, N = self.features.shape[:2]
        if self.T.shape[::2] != (R, N):
            raise DataError(f"T has shape {tuple(self.T.shape)}; {R} rounds of {N} tasks need ({R}, M, {N})")
        MatchingProblem(np.asarray(self.T, np.float64), np.asarray(self.A, np.float64), self.gamma)  # checks both

    def __len__(self) -> int:
        return len(self.T)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.features[index], self.T[index], self.A[index]


@torch.no_grad()
def regret(
    model: Callable[[Tensor], tuple[Tensor, Tensor]],
    loader: Iterable[Any],
    *,
    gamma: float | None = None,
    price: float = PRICE,
) -> dict[str, float]:
    """Means over all rounds of what the model's plans cost: `penalised_excess`, `regret`, `reliability` and others.

    Every round is matched under the model's predictions and, to compare, under the truth, by `mfcp.solve`. The names
    are those of `mfcp.evaluation.metric_table.METRICS`; `penalised_excess`, in makespans of the best plan, is the one
    to compare models by: `regret`, Eq. (6) of [Huo2025]_ in seconds per task, rewards a plan that misses gamma.

    Args:
        model: features (B, N, F) → predicted seconds and success probabilities, both (B, M, N). A module is set to
            evaluation, and back.
        loader: batches (features, T, A) of at least one round, as a `DataLoader` over `MatchingDataset` gives.
        gamma: least mean success probability; default that of the loader's `MatchingDataset`.
        price: makespans per unit of missing reliability.

    Raises:
        DataError: no batch; no gamma; predictions that are no times or probabilities or of another shape.
    """
    gamma = _gamma_of(loader) if gamma is None else gamma
    training = getattr(model, "training", False)
    if training:
        model.eval()  # type: ignore[attr-defined]
    try:
        batches = [_judged(model, batch, gamma, price) for batch in loader]
    finally:
        if training:
            model.train()  # type: ignore[attr-defined]
    if not batches:
        raise DataError("regret: the loader gave no batch")
    rounds = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    optimal, span = rounds.pop("optimal_makespan"), rounds["makespan"]
    return {name: float(values.mean()) for name, values in rounds.items()} | {
        "relative_regret": float(span.sum() / optimal.sum() - 1.0)
    }


def _gamma_of(loader: Iterable[Any]) -> float:
    """The gamma of the data set of a loader; that of a part of it is the whole's."""
    data = getattr(loader, "dataset", None)
    while isinstance(data, Subset):
        data = data.dataset
    if not isinstance(data, MatchingDataset):
        raise DataError(
            "regret: the loader's data set tells no gamma; give gamma=…, or make the data set by MatchingDataset"
        )
    return data.gamma


def _judged(model: Callable[[Tensor], tuple[Tensor, Tensor]], batch: Any, gamma: float, price: float) -> dict[str, Any]:
    """Metrics of each round of a batch."""
    features, *labels = batch
    predicted = model(features)
    T, A, T_hat, A_hat = (np.asarray(x.double().cpu()) for x in (*labels, *predicted))
    if T_hat.shape != T.shape or A_hat.shape != T.shape:
        raise DataError(f"regret: the model gave {T_hat.shape} and {A_hat.shape}; the labels are {T.shape}")
    truth = MatchingProblem(T, A, gamma)
    plan = solve_or_fall_back(MatchingProblem(T_hat, A_hat, gamma)).assignment
    reference = Reference.solved(np.arange(len(T)), truth, price=price)
    return round_metrics(plan, reference, price=price)

"""Forecasts that networks correct: what training for the decision may change of predictors without gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from mfcp.predictors.base import Predictor
from mfcp.predictors.cross_fitted import MeanOfFolds
from mfcp.predictors.forecast import Forecaster, Mixture, TaskInputs
from mfcp.predictors.heads import Heads


class CorrectedHeads(Heads):
    """log t = forecast + time(z) - time at the start(z), and logit a likewise: before any step nothing is corrected.

    Features are wide: those of the tasks, then the forecast's M log times and M logits of reliability (`widened`).
    """

    def __init__(self, predictor: Predictor, features: int, clusters: int, seeds: Sequence[Sequence[int]]) -> None:
        super().__init__(predictor, features, clusters, seeds)
        self.time_at_start = deepcopy(self.time).requires_grad_(False)
        self.reliability_at_start = deepcopy(self.reliability).requires_grad_(False)

    def log_forward(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """See `Heads.log_forward`; of wide features (K, n, d + 2 M)."""
        M = self.centre.shape[1]
        z, log_t, logit = Z[..., : -2 * M], Z[..., -2 * M : -M], Z[..., -M:]
        log_t = log_t.transpose(1, 2) + self.time(z) - self.time_at_start(z)
        return log_t, torch.sigmoid(logit.transpose(1, 2) + self.reliability(z) - self.reliability_at_start(z))


class Corrected(nn.Module):
    """A stack of forecasts, corrected by the mean of networks that each left out a fold."""

    def __init__(self, mixture: Mixture, bank: MeanOfFolds) -> None:
        super().__init__()
        self.mixture = mixture
        self.bank = bank

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Predicted seconds and success probabilities, each (S, M, n)."""
        T, A = self.mixture(inputs)
        log_t, a = self.bank(TaskInputs(widened(inputs.Z, T.log(), A)))
        return log_t.exp(), a

    @staticmethod
    def restored(
        forecasters: Mapping[str, Forecaster], predictor: Predictor, features: int, state: Mapping[str, Tensor]
    ) -> Corrected:
        """From its `state_dict`; errors as `Forecaster.restored`."""
        parts: dict[str, dict[str, Tensor]] = {"mixture": {}, "bank": {}}
        for key, value in state.items():
            part, _, name = key.partition(".")
            parts[part][name] = value
        members, clusters = state["bank.heads.centre"].shape
        heads = CorrectedHeads(predictor, features, clusters, [(0,)] * members)
        bank = MeanOfFolds(heads, int(state["bank.folds"]))
        bank.load_state_dict(parts["bank"])
        return Corrected(Mixture.restored(forecasters, parts["mixture"]), bank)


def widened(Z: Tensor, log_time: Tensor, reliability: Tensor) -> Tensor:
    """(S, n, d + 2 M) features (S, n, d) and, beside them, a forecast's log seconds and probabilities (S, M, n)."""
    return torch.cat([Z, log_time.transpose(1, 2), torch.logit(reliability, 1e-6).transpose(1, 2)], dim=2)

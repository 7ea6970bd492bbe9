"""Time and reliability heads of a setting: two banks of predictors, trained by mean squared error (Eq. (1))."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from mfcp.predictors.base import Predictor
from mfcp.predictors.square_root import square_root

Loss = Literal["time", "log_time"]


class HeadTraining(BaseModel):
    """How heads are trained before any decision is looked at."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    epochs: int = Field(300, ge=1, description="full-batch Adam steps")
    lr: float = Field(1e-2, gt=0, description="peak learning rate; cosine decay to zero")
    weight_decay: float = Field(1e-3, ge=0, description="decoupled, as in AdamW")
    check_every: int = Field(5, ge=1, description="epochs between looks at the validation loss")


class Heads(nn.Module):
    """t = exp(centre + spread · time(z)) seconds and a = sigmoid(logit + reliability(z)), per member and cluster.

    The three buffers carry the scale of the training labels, so that a fresh network predicts their average.
    Positive times and probabilities hold by construction.
    """

    centre: Tensor
    spread: Tensor
    logit: Tensor

    def __init__(self, predictor: Predictor, features: int, clusters: int, seeds: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.predictor = predictor
        self.features = features
        self.time = predictor.bank(features, clusters, [(*s, 0) for s in seeds])
        self.reliability = predictor.bank(features, clusters, [(*s, 1) for s in seeds])
        for name in ("centre", "spread", "logit"):
            self.register_buffer(name, torch.zeros(len(seeds), clusters, dtype=torch.float64))

    def scale_to(self, T: Tensor, A: Tensor, known: Tensor) -> None:
        """Set the buffers from labels (M, n) on the known pairs (K, M, n)."""
        weight = known.double()
        count = weight.sum(-1).clamp_min(1)
        log_t = torch.where(known, T.log(), 0.0)
        self.centre.copy_((log_t * weight).sum(-1) / count)
        variance = ((log_t - self.centre[..., None]) ** 2 * weight).sum(-1) / count
        self.spread.copy_(square_root(variance).clamp_min(1e-3))
        mean = (torch.where(known, A, 0.0) * weight).sum(-1) / count
        self.logit.copy_(torch.logit(mean.clamp(0.01, 0.99)))

    def log_forward(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted log seconds and success probabilities, each (K, M, n), for features Z (K, n, d).

        Log seconds stay within 10 deviations of the training labels.
        """
        log_t = self.centre[..., None] + self.spread[..., None] * self.time(Z).clamp(-10.0, 10.0)
        return log_t, torch.sigmoid(self.logit[..., None] + self.reliability(Z))

    def forward(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted seconds and success probabilities, each (K, M, n), for features Z (K, n, d)."""
        log_t, a = self.log_forward(Z)
        return log_t.exp(), a


def fit(
    heads: Heads,
    Z: Tensor,
    T: Tensor,
    A: Tensor,
    train: Tensor,
    validation: Tensor | None,
    *,
    loss: Loss,
    training: HeadTraining,
    advance: Callable[[], Any] = lambda: None,
) -> Tensor:
    """Train all heads at once by mean squared error, keeping each one's best validation checkpoint, if there is one.

    Eq. (1) of [Huo2025]_: squared error of t (in units of the cluster's mean time) or of log t, and of a.

    Args:
        heads: a bank of K × M pairs.
        Z: (K, n, d) standardised features.
        T, A: (M, n) labels; entries outside the masks may be nan.
        train, validation: (K, M, n) pairs to learn from and to stop on; None keeps the last epoch.
        loss: "time" or "log_time".
        training: epochs, learning rate, decay.
        advance: called once per epoch (progress bars).

    Returns:
        (checks, K) validation losses, averaged over clusters; of the training pairs where there is no validation.
    """
    heads.scale_to(T, A, train)
    heads.float()  # squared errors need no double precision; back to double before anything is matched
    parts = {"train": _Part.of(Z, T, A, train)}
    parts["validation"] = parts["train"] if validation is None else _Part.of(Z, T, A, validation)

    def errors(part: _Part) -> tuple[Tensor, Tensor]:
        log_t, a = heads.log_forward(part.Z)
        gap = log_t - part.T.log() if loss == "log_time" else (log_t.exp() - part.T) / parts["train"].mean_time
        return part.mean(gap**2), part.mean((a - part.A) ** 2)

    optimizer = torch.optim.AdamW(heads.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.epochs)
    best = [] if validation is None else [Best(bank) for bank in (heads.time, heads.reliability)]
    seen = []
    for epoch in range(training.epochs):
        optimizer.zero_grad()
        time_error, reliability_error = errors(parts["train"])
        (time_error.sum() + reliability_error.sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        advance()
        if epoch % training.check_every == training.check_every - 1 or epoch == training.epochs - 1:
            with torch.no_grad():
                checks = errors(parts["validation"])
            for keeper, value in zip(best, checks, strict=False):
                keeper.offer(value)
            seen.append(checks[0].mean(1) + checks[1].mean(1))
    for keeper in best:
        keeper.restore()
    heads.double()
    return torch.stack(seen).double()


@dataclass(frozen=True)
class _Part:
    """The tasks of one part, gathered per member and padded to the same number, in single precision."""

    Z: Tensor
    T: Tensor
    A: Tensor
    weight: Tensor
    mean_time: Tensor

    @staticmethod
    def of(Z: Tensor, T: Tensor, A: Tensor, known: Tensor) -> _Part:
        used = known.any(1)
        width = int(used.sum(1).max())
        index = used.int().argsort(dim=1, descending=True, stable=True)[:, :width]  # (K, n'), its own tasks first
        K, M, _ = known.shape
        pick = index[:, None].expand(K, M, width)
        weight = known.gather(2, pick)
        labels = (x.expand(K, M, -1).gather(2, pick) for x in (T.nan_to_num(1.0), A.nan_to_num(0.0)))
        times, shares = (torch.where(weight, x, fill).float() for x, fill in zip(labels, (1.0, 0.0), strict=True))
        share = weight.float() / weight.sum(2, keepdim=True).clamp_min(1)
        features = Z.gather(1, index[..., None].expand(-1, -1, Z.shape[2])).float()
        return _Part(features, times, shares, share, (times * share).sum(2, keepdim=True))

    def mean(self, values: Tensor) -> Tensor:
        """(K, M) means over the known pairs."""
        return (values * self.weight).sum(2)


class Best:
    """The parameters of a module at its lowest score, kept apart for each leading index (K, …)."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.score: Tensor | None = None
        self.kept: list[Tensor] = []

    def offer(self, score: Tensor) -> None:
        """Keep the current parameters wherever `score` (over their leading axes) is the lowest so far."""
        now = [p.detach().clone() for p in self.module.parameters()]
        if self.score is None:
            self.score, self.kept = score.clone(), now
            return
        better = score < self.score
        self.score = torch.where(better, score, self.score)
        shape = better.shape
        self.kept = [
            torch.where(better.reshape(shape + (1,) * (new.ndim - len(shape))), new, old)
            for new, old in zip(now, self.kept, strict=True)
        ]

    def restore(self) -> None:
        """Put the kept parameters back."""
        with torch.no_grad():
            for parameter, kept in zip(self.module.parameters(), self.kept, strict=True):
                parameter.copy_(kept)

"""Gaussian processes: few, smooth effects of the features, and exact out-of-fold predictions from one factorisation.

.. [Alvarez2012] M. A. Álvarez, L. Rosasco and N. D. Lawrence, "Kernels for vector-valued functions: a review",
   Foundations and Trends in Machine Learning 4(3), 2012.
.. [Rasmussen2006] C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.arrays import Bools, Floats, Ints
from mfcp.data.pool.effects import cluster_effects, task_effects
from mfcp.predictors.forecast import Forecast, Forecaster, OutOfFold, TaskInputs, TrainingData
from mfcp.predictors.square_root import square_root

_FEW_TASKS = 30  # up to so many, a fit is repeated without each fold
_UNKNOWN = 1e6  # noise variance of a label that is not there, in units of the labels' variance
_JITTER = 1e-6
_LEAST_SD = 1e-3  # of labels: equal ones have a scale, too
_BLOCK = 60_000  # covariances computed at once: what stays in a core's cache
_LINEAR, _NOISE = math.log(0.3), math.log(0.05)  # centres of the priors of log variances, in the same units
_LOW, _HIGH = 1e-3, 1 - 1e-3  # probabilities stay inside


class GaussianProcess(Forecaster):
    """Gaussian processes of log time and of the success share, standardised each.

    Coregionalised (the linear model of §2 in [Alvarez2012]_, with two terms): log t_ij = g(z_j) + h_i(z_j). One
    process g is what a task takes on all clusters, and M processes h_i are what single clusters add to it; these share
    one kernel, and so do the M success shares. So few tasks tell what sets clusters apart, which is what a matching
    needs. Independent: one process per cluster and label, with a kernel of its own.

    k(x, y) = s² Matérn-5/2(|x - y| / l) + Σ_k w_k x_k y_k + 1, with a length l_k and a slope's variance w_k per
    feature: what is left of a straight line is smooth. Lengths and variances maximise the marginal likelihood of a
    sample of the tasks (Eq. (2.30) of [Rasmussen2006]_) under weak log-normal priors; shares carry their binomial
    noise. Leaving out a fold needs no second fit: its residuals are [K⁻¹]_FF⁻¹ [K⁻¹y]_F (§5.4.2 there, for blocks).
    With few tasks, lengths and variances that were fitted on the fold too would make it look too easy: then everything
    is fitted again without it.
    """

    name: ClassVar[str] = "gaussian_process"
    clusters: Literal["coregionalised", "independent"] = Field("coregionalised", description="what clusters share")
    steps: int = Field(40, ge=1, description="Adam steps on lengths and variances")
    lr: float = Field(0.1, gt=0)
    sample: int = Field(250, ge=10, description="tasks that lengths and variances are fitted on")

    def epochs(self) -> int:
        """See `Forecaster.epochs`."""
        return self.steps

    def fit(self, data: TrainingData, *, advance: Callable[[], Any] = lambda: None) -> Forecast:
        """See `Forecaster.fit`."""
        forecast = self._fit(data, advance)
        if (data.fold >= 0).sum(axis=1).max() > _FEW_TASKS or data.folds < 2:
            return forecast
        return Forecast(forecast.model, self._refitted(data))

    def _refitted(self, data: TrainingData) -> OutOfFold:
        """Predictions for each fold by processes that were fitted on the others alone."""
        log_t, a = np.zeros((2, len(data.seeds), *data.T.shape))
        inputs = TaskInputs.of(data.Z, None)
        for f in range(data.folds):
            out = data.fold == f
            others = replace(data, train=data.train & ~out[:, None], fold=np.where(out, -1, data.fold))
            predicted = self._fit(others, lambda: None).model(inputs)
            for result, value in zip((log_t, a), predicted, strict=True):
                result[:] = np.where(out[:, None], value.numpy(), result)
        return OutOfFold(log_t, a, data.fold >= 0)

    def _fit(self, data: TrainingData, advance: Callable[[], Any]) -> Forecast:
        every = [self._labels(data, s) for s in range(len(data.seeds))]
        kernel = self._kernel(data, every, advance)
        S, n = data.fold.shape
        width = max(len(labels.task) for labels in every)
        X = torch.zeros(S, width, data.Z.shape[2], dtype=torch.float64)
        alpha = torch.zeros(S, len(every[0].y), width, dtype=torch.float64)
        held = np.zeros((S, len(every[0].y), n))
        for s, labels in enumerate(every):
            own = len(labels.task)
            X[s, :own], k = labels.X, kernel.of(s)
            noise = k.noise.exp()[labels.kernel, None] + labels.noise + _JITTER
            factor = torch.linalg.cholesky(k(labels.X, labels.X)[labels.kernel] + torch.diag_embed(noise))
            inverse = torch.cholesky_inverse(factor)
            weights = torch.matmul(inverse, labels.y[..., None])[..., 0]
            alpha[s, :, :own] = weights
            held[s][:, labels.task] = _left_out(inverse, weights, labels.y, data.fold[s][labels.task]).numpy()
        mean, sd = (torch.stack([getattr(x, name) for x in every]) for name in ("mean", "sd"))
        model = _Processes(kernel.spread(every[0].kernel), X, alpha, mean, sd)
        known = data.fold >= 0
        log_t, a = (np.where(known[:, None], x, 0.0) for x in model.scaled(torch.as_tensor(held)))
        return Forecast(model, OutOfFold(log_t, a, known))

    def restored(self, state: Mapping[str, Tensor]) -> nn.Module:
        """See `Forecaster.restored`."""
        kernel = _Kernel(*(state[f"kernel.{name}"] for name in _Kernel.names))
        return _Processes(kernel, *(state[name] for name in ("X", "alpha", "mean", "sd")))

    def _labels(self, data: TrainingData, seed: int) -> _Labels:
        return _Labels.coregionalised(data, seed) if self.clusters == "coregionalised" else _Labels.of(data, seed)

    def _kernel(self, data: TrainingData, every: list[_Labels], advance: Callable[[], Any]) -> _Kernel:
        """Lengths and variances of every kernel of all seeds at once, each on its seed's sample of tasks."""
        size = min(self.sample, *(len(labels.task) for labels in every))
        picks = [
            np.sort(np.random.default_rng([seed, 11]).permutation(len(labels.task))[:size])
            for seed, labels in zip(data.seeds, every, strict=True)
        ]
        X = torch.stack([labels.X[pick] for labels, pick in zip(every, picks, strict=True)])
        y = torch.stack([labels.y[:, pick] for labels, pick in zip(every, picks, strict=True)])
        noise = torch.stack([labels.noise[:, pick] for labels, pick in zip(every, picks, strict=True)])
        shared = every[0].kernel
        kernel = _Kernel.prior(len(every), int(shared.max()) + 1, X.shape[2])
        values = [value.requires_grad_() for value in kernel.values()]
        optimizer = torch.optim.Adam(values, lr=self.lr, fused=True)
        for _ in range(self.steps):
            optimizer.zero_grad()
            _descend(kernel, X, y, noise, shared)
            optimizer.step()
            advance()
        return _Kernel(*(value.detach() for value in kernel.values()))


def _descend(kernel: _Kernel, X: Tensor, y: Tensor, noise: Tensor, shared: Ints) -> None:
    """Add the gradient of minus the log posterior of lengths and variances to what they have.

    Of minus the log marginal likelihood by a process's covariance K it is (K⁻¹ - αα') / 2, α = K⁻¹y (Eq. (5.9) of
    [Rasmussen2006]_); processes with one kernel add up before anything goes through it.

    Args:
        kernel: K kernels of S seeds.
        X: (S, n, d) features.
        y, noise: (S, P, n) labels and the variances of their known noise.
        shared: (P,) which kernel each process has.
    """
    covariance, own = kernel(X[:, None], X[:, None]), kernel.noise.exp()
    with torch.no_grad():
        factor = torch.linalg.cholesky(covariance[:, shared] + torch.diag_embed(own[:, shared, None] + noise + _JITTER))
        alpha = torch.cholesky_solve(y[..., None], factor)
        slope = (torch.cholesky_inverse(factor) - alpha @ alpha.transpose(-1, -2)) / 2
        total = torch.zeros_like(covariance).index_add_(1, torch.as_tensor(shared), slope)
    levels = total.diagonal(dim1=-2, dim2=-1).sum(-1)
    torch.autograd.backward([covariance, own, kernel.surprise().sum()], [total, levels, None])


@dataclass(frozen=True)
class _Labels:
    """One seed's tasks to learn from, as labels of P processes.

    Attributes:
        task: (n,) positions of the tasks.
        X: (n, d) features.
        y, noise: (P, n) standardised labels and the variance of their known noise.
        mean, sd: (P,) what labels were standardised by.
        kernel: (P,) which kernel each process has.
    """

    task: Ints
    X: Tensor
    y: Tensor
    noise: Tensor
    mean: Tensor
    sd: Tensor
    kernel: Ints

    @staticmethod
    def of(data: TrainingData, seed: int) -> _Labels:
        """M processes of log time and M of the success share, each with a kernel of its own."""
        task, known, seconds, share = _known(data, seed)
        labels = np.stack([np.log(np.where(known, seconds, 1.0)), np.where(known, share, 0.0)])
        weight = known / np.maximum(known.sum(1, keepdims=True), 1)
        mean = (labels * weight).sum(2)
        sd = np.maximum(np.sqrt(((labels - mean[..., None]) ** 2 * weight).sum(2)), _LEAST_SD)
        y = np.where(known, (labels - mean[..., None]) / sd[..., None], 0.0)
        binomial = _binomial(labels[1], mean[1], data.runs[:, task]) / sd[1][:, None] ** 2
        noise = np.where(known, np.stack([np.zeros_like(binomial), binomial]), _UNKNOWN)
        y, noise, mean, sd = (x.reshape(-1, *x.shape[2:]) for x in (y, noise, mean, sd))
        return _Labels.standard(data, seed, y, noise, mean, sd, np.arange(2 * len(known)))

    @staticmethod
    def coregionalised(data: TrainingData, seed: int) -> _Labels:
        """One process of what a task takes, M of what a cluster adds to it, M of the success share; three kernels."""
        task, known, seconds, share = _known(data, seed)
        M, T = len(known), np.where(known, seconds, np.nan)
        offset, level = cluster_effects(T)[0], np.nan_to_num(task_effects(T))
        added = np.where(known, np.log(np.where(known, T, 1.0)) - offset[:, None] - level, 0.0)
        mean_share = np.where(known, share, 0.0).sum(1) / np.maximum(known.sum(1), 1)
        apart = np.where(known, share - mean_share[:, None], 0.0)
        measured: Bools = np.any(known, axis=0)
        rows = [level - level[measured].mean() * measured, *added, *apart]
        deviation = [_rms(rows[0], measured), *[_rms(added, known)] * M, *[_rms(apart, known)] * M]
        binomial = _binomial(np.where(known, share, 0.0), mean_share, data.runs[:, task]) / deviation[-1] ** 2
        noise = np.concatenate([np.zeros((1 + M, len(task))), binomial])
        sd, y = np.array(deviation), np.array(rows) / np.array(deviation)[:, None]
        noise = np.where(np.concatenate([measured[None], known, known]), noise, _UNKNOWN)
        mean = np.concatenate([[level[measured].mean()], offset, mean_share])
        return _Labels.standard(data, seed, y, noise, mean, sd, np.repeat([0, 1, 2], [1, M, M]))

    @staticmethod
    def standard(
        data: TrainingData, seed: int, y: Floats, noise: Floats, mean: Floats, sd: Floats, kernel: Ints
    ) -> _Labels:
        """Of arrays; arguments as the attributes."""
        task = np.flatnonzero(data.fold[seed] >= 0)
        X, y_, noise_, mean_, sd_ = (torch.as_tensor(x) for x in (data.Z[seed][task], y, noise, mean, sd))
        return _Labels(task, X, y_, noise_, mean_, sd_, kernel)


def _known(data: TrainingData, seed: int) -> tuple[Ints, Bools, Floats, Floats]:
    """Positions (n,) of a seed's tasks to learn from; (M, n) which labels there are, seconds and shares."""
    task = np.flatnonzero(data.fold[seed] >= 0)
    return task, data.train[seed][:, task], data.T[:, task], data.A[:, task]


def _rms(values: Floats, known: Bools) -> float:
    return max(float(np.sqrt((values[known] ** 2).mean())), _LEAST_SD)


def _binomial(share: Floats, mean: Floats, runs: Ints) -> Floats:
    """(M, n) variance of observed shares; each is moved half way to its cluster's mean, or 5 of 5 had no noise."""
    shrunk = (share + mean[:, None]) / 2
    result: Floats = np.maximum(shrunk * (1 - shrunk), 1e-4) / np.maximum(runs, 1)
    return result


class _Kernel(nn.Module):
    """Log lengths and variances of K kernels of S seeds."""

    names: ClassVar[tuple[str, ...]] = ("length", "linear", "signal", "noise")
    length: Tensor
    linear: Tensor
    signal: Tensor
    noise: Tensor

    def __init__(self, *values: Tensor) -> None:
        super().__init__()
        for name, value in zip(self.names, values, strict=True):
            self.register_buffer(name, value)

    @staticmethod
    def prior(seeds: int, kernels: int, features: int) -> _Kernel:
        """The centres of the priors: lengths of a typical distance, see `surprise`."""
        many = torch.ones(seeds, kernels, features, dtype=torch.float64)
        one = many[..., 0]
        return _Kernel(many * 0.5 * math.log(features), many * _LINEAR, 0.0 * one, one * _NOISE)

    def values(self) -> list[Tensor]:
        return [getattr(self, name) for name in self.names]

    def of(self, seed: int) -> _Kernel:
        return _Kernel(*(value[seed] for value in self.values()))

    def spread(self, kernel: Ints) -> _Kernel:
        """A kernel for each process, by (P,) which one it has."""
        return _Kernel(*(value[:, kernel] for value in self.values()))

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        """(…, n, m) covariances of features (…, n, d) and (…, m, d)."""
        inverse = (-self.length).exp()[..., None, :]
        x, y = X * inverse, Y * inverse
        square = (x**2).sum(-1)[..., :, None] + (y**2).sum(-1)[..., None, :] - 2 * x @ y.transpose(-1, -2)
        straight = (X * self.linear.exp()[..., None, :]) @ Y.transpose(-1, -2)
        covariance: Tensor = self.signal.exp()[..., None, None] * _matern(square) + straight + 1.0
        return covariance

    def surprise(self) -> Tensor:
        """(…) minus the log prior: log lengths, slopes' variances with deviation 1, the noise's with 2."""
        features = self.length.shape[-1]
        lengths = ((self.length - 0.5 * math.log(features)) ** 2).sum(-1)
        slopes = ((self.linear - _LINEAR) ** 2).sum(-1)
        return (lengths + slopes + (self.noise - _NOISE) ** 2 / 4) / 2


class _Processes(nn.Module):
    """Posterior means of all processes."""

    X: Tensor
    alpha: Tensor
    mean: Tensor
    sd: Tensor
    of_inverse: Tensor
    of_scaled: Tensor
    of_square: Tensor
    of_smooth: Tensor
    of_slope: Tensor
    of_level: Tensor

    def __init__(self, kernel: _Kernel, X: Tensor, alpha: Tensor, mean: Tensor, sd: Tensor) -> None:
        super().__init__()
        self.kernel = kernel
        for name, value in (("X", X), ("alpha", alpha), ("mean", mean), ("sd", sd)):
            self.register_buffer(name, value)
        # What does not depend on the tasks to predict: k(z, X) alpha = Matérn(z, X) smooth + slope · z + level.
        inverse = (-kernel.length).exp()
        scaled = torch.einsum("snd,spd->spdn", X, inverse).contiguous()
        parts = {
            "inverse": inverse,
            "scaled": scaled,
            "square": (scaled**2).sum(2, keepdim=True),
            "smooth": (kernel.signal.exp()[..., None] * alpha)[..., None],
            "slope": kernel.linear.exp() * (alpha @ X),
            "level": alpha.sum(2, keepdim=True),
        }
        for name, value in parts.items():
            self.register_buffer(f"of_{name}", value, persistent=False)

    def forward(self, inputs: TaskInputs) -> tuple[Tensor, Tensor]:
        """Log seconds and probabilities, each (S, M, n)."""
        size = max(1, _BLOCK // (self.alpha.shape[1] * self.alpha.shape[2]))
        blocks = (
            torch.cat([self._standard(s, part) for part in torch.split(z, size)], dim=-1)
            for s, z in enumerate(inputs.Z)
        )
        return self.scaled(torch.stack(list(blocks)))

    def _standard(self, seed: int, z: Tensor) -> Tensor:
        """(P, n) of one seed."""
        x = z * self.of_inverse[seed][:, None]
        square = torch.baddbmm((x**2).sum(-1, keepdim=True) + self.of_square[seed], x, self.of_scaled[seed], alpha=-2)
        curved = torch.bmm(_matern(square), self.of_smooth[seed])[..., 0]
        return curved + self.of_slope[seed] @ z.T + self.of_level[seed]

    def scaled(self, standard: Tensor) -> tuple[Tensor, Tensor]:
        """Log seconds and probabilities from standardised values (S, P, n); P is odd where one process is the level."""
        values = standard * self.sd[..., None] + self.mean[..., None]
        M = values.shape[1] // 2
        level, each = values[:, : -2 * M], values[:, -2 * M :]
        log_t, a = each.chunk(2, dim=1)
        return log_t + level.sum(1, keepdim=True), a.clamp(_LOW, _HIGH)


def _matern(square: Tensor) -> Tensor:
    """Matérn-5/2 of squared distances in lengths (Eq. (4.17) of [Rasmussen2006]_)."""
    r = square_root(5 * square.clamp_min(1e-12))
    return torch.addcmul(1 + r, r, r, value=1 / 3) * (-r).exp()


def _left_out(inverse: Tensor, weights: Tensor, y: Tensor, fold: Ints) -> Tensor:
    """(P, n) predictions of each task from the tasks of all other folds."""
    result = y.clone()
    for f in range(int(fold.max()) + 1):
        own = torch.as_tensor(np.flatnonzero(fold == f))
        if not len(own):  # of another seed, which has more families
            continue
        block = inverse[:, own][:, :, own]
        result[:, own] -= torch.linalg.solve(block, weights[:, own, None])[..., 0]
    return result

"""What the fit of computing and communicating leaves of iteration times, told from configurations nearby.

The logarithm of measured over fitted seconds is a sum of Gaussian processes with a Matérn-3/2 kernel each, over log
accelerators, placement and log samples of an accelerator: of all jobs on a device, of all runs of a model, and of the
job itself, by accelerators, by samples and by both. Lengths and variances are fitted by the marginal likelihood under
weak log-normal priors (Rasmussen and Williams, 2006, Eqs. 2.30 and 5.9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mfcp.arrays import Bools, Floats
from mfcp.tasks.timing.marginal_likelihood import most_likely
from mfcp.tasks.timing.scaling_fit import ScaledRuns, ScalingFit
from mfcp.threads import one_thread

_START = {
    "doublings": 2.0, "placement": 1.0, "samples": 2.0, "of device": 0.01, "of device and samples": 0.01,
    "of model": 0.01, "of job": 0.02, "of job and samples": 0.02, "of samples": 0.02, "noise": 0.003,
}  # fmt: skip
"""Lengths, in doublings and of a change of placement; variances of log time."""
_PRIOR_SD, _LR = 1.0, 0.08


@dataclass(frozen=True)
class ScaledTimes:
    """What was learned.

    Attributes:
        fit_: computing and communicating.
        known: configurations that were measured.
        excess: (n,) log of measured over fitted seconds.
        values: logarithms of what `_START` names.
    """

    fit_: ScalingFit
    known: ScaledRuns
    excess: Floats
    values: dict[str, float]

    @classmethod
    @one_thread()
    def fit(cls, known: ScaledRuns, seconds: Floats) -> ScaledTimes:
        """Learn from profiled configurations; errors as `ScalingFit.fit`.

        Args:
            known: n of them.
            seconds: (n,) of an iteration.
        """
        scaling = ScalingFit.fit(known, seconds)
        excess = np.log(seconds / scaling.predict(known))
        gaps = _gaps(known, known)

        def covariance(values: Tensor) -> Tensor:
            return _covariance(values, gaps) + _noise(values, len(excess))

        found = most_likely(_START, covariance, torch.as_tensor(excess), prior_sd=_PRIOR_SD, lr=_LR)
        return cls(scaling, known, excess, found)

    @one_thread()
    def predict(self, asked: ScaledRuns) -> tuple[Floats, Floats]:
        """(n,) seconds of an iteration, and the standard deviation of their logarithm; errors as `ScalingFit.predict`.

        The deviation is that of the processes alone: of numbers of accelerators that nobody tried, it is too small.
        """
        values = torch.tensor(list(self.values.values()), dtype=torch.float64)
        noise = _noise(values, len(self.excess))
        factor = torch.linalg.cholesky(_covariance(values, _gaps(self.known, self.known)) + noise)
        across = _covariance(values, _gaps(asked, self.known))
        mean = across @ torch.cholesky_solve(torch.as_tensor(self.excess)[:, None], factor)[:, 0]
        told = torch.linalg.solve_triangular(factor, across.T, upper=False).square().sum(0)
        own = torch.diagonal(_covariance(values, _gaps(asked, asked))) + noise[0, 0]
        return self.fit_.predict(asked) * np.exp(mean.numpy()), (own - told).clamp_min(0.0).sqrt().numpy()


def _gaps(a: ScaledRuns, b: ScaledRuns) -> dict[str, Tensor]:
    """(n, m) what two configurations have in common, and how far they are from each other."""

    def same(x: Bools) -> Tensor:
        return torch.as_tensor(x.astype(float))

    def far(x: Floats, y: Floats) -> Tensor:
        return torch.as_tensor((x[:, None] - y[None]) ** 2)

    return {
        "device": same(a.device[:, None] == b.device[None]),
        "model": same(a.model[:, None] == b.model[None]),
        "job": same(a.job[:, None] == b.job[None]),
        "accelerators": far(np.log2(a.accelerators), np.log2(b.accelerators)),
        "spread": far(a.spread.astype(float), b.spread.astype(float)),
        "samples": far(np.log2(a.batch / a.accelerators), np.log2(b.batch / b.accelerators)),
    }


def _covariance(values: Tensor, gaps: dict[str, Tensor]) -> Tensor:
    v = dict(zip(_START, values.exp(), strict=True))
    size = gaps["accelerators"] / v["doublings"] ** 2 + gaps["spread"] / v["placement"] ** 2
    samples = gaps["samples"] / v["samples"] ** 2
    by_size, by_both, by_samples = _matern(size), _matern(size + samples), _matern(samples)
    total: Tensor = gaps["device"] * (v["of device"] * by_size + v["of device and samples"] * by_both)
    total = total + v["of model"] * gaps["model"] * by_both
    own: Tensor = gaps["job"] * (
        v["of job"] * by_size + v["of job and samples"] * by_both + v["of samples"] * by_samples
    )
    return total + own


def _matern(square: Tensor) -> Tensor:
    """Matérn-3/2 of squared distances in lengths."""
    r = math.sqrt(3) * (square + 1e-12).sqrt()
    result: Tensor = (1 + r) * torch.exp(-r)
    return result


def _noise(values: Tensor, count: int) -> Tensor:
    noise: Tensor = dict(zip(_START, values.exp(), strict=True))["noise"]
    return noise * torch.eye(count, dtype=torch.float64)

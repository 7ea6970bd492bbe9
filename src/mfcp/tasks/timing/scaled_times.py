"""What the fit of computing and communicating leaves of iteration times, told from configurations nearby.

The logarithm of measured over fitted seconds is a sum of Gaussian processes with a Matérn-3/2 kernel each, over log
accelerators, placement and log samples of an accelerator: of all jobs on a device, of all runs of a model, and of the
job itself, by accelerators, by samples and by both. Lengths and variances are fitted by the marginal likelihood under
weak log-normal priors (Rasmussen and Williams, 2006, Eqs. 2.30 and 5.9).

Beyond the accelerators that a job was given, its own runs say little. There the same step of other models on the device
counts as well: what their time did from the job's largest number to the one that is asked about. Either is weighed by
how far it is off for others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mfcp.arrays import Bools, Floats, Ints
from mfcp.tasks.timing.marginal_likelihood import most_likely
from mfcp.tasks.timing.scaling_fit import ScaledRuns, ScalingFit
from mfcp.threads import one_thread

_START = {
    "doublings": 2.0, "placement": 1.0, "samples": 2.0, "of device": 0.01, "of device and samples": 0.01,
    "of model": 0.01, "of job": 0.02, "of job and samples": 0.02, "of samples": 0.02, "noise": 0.003,
}  # fmt: skip
"""Lengths, in doublings and of a change of placement; variances of log time."""
_PRIOR_SD, _LR = 1.0, 0.08
_USUAL, _NOISE = 0.2, 0.05  # deviations of log time: of what is told of a step, as one model says it; of a run
_SAME_GROWTH = 0.1  # of the log of batches: steps alike


@dataclass(frozen=True)
class ScaledTimes:
    """What was learned.

    Attributes:
        fit_: computing and communicating.
        known: configurations that were measured.
        excess: (n,) log of measured over fitted seconds.
        values: logarithms of what `_START` names.
        steps: what jobs do beyond the accelerators that they were given; None where no job has two numbers.
    """

    fit_: ScalingFit
    known: ScaledRuns
    excess: Floats
    values: dict[str, float]
    steps: _Steps | None = None

    @classmethod
    @one_thread()
    def fit(cls, known: ScaledRuns, seconds: Floats) -> ScaledTimes:
        """Learn from profiled configurations; errors as `ScalingFit.fit`.

        Args:
            known: n of them.
            seconds: (n,) of an iteration.
        """
        found = cls._processes(known, seconds)
        largest = _largest(known)
        if not largest.any():
            return found
        told = cls._processes(known.take(~largest), seconds[~largest])
        beyond = np.flatnonzero(largest & np.isin(known.job, told.fit_.jobs))
        off = np.log(told._told(known.take(beyond))[0] / seconds[beyond])
        return replace(found, steps=_Steps(known, np.log(seconds), known.take(beyond), off))

    @classmethod
    def _processes(cls, known: ScaledRuns, seconds: Floats) -> ScaledTimes:
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

        The deviation is that of the processes alone where no other model made the step that is asked about: of numbers
        of accelerators that nobody tried, it is too small.
        """
        seconds, sd = self._told(asked)
        if self.steps is None:
            return seconds, sd
        shift, sd = self.steps.weighed(asked, np.log(seconds), sd)
        return seconds * np.exp(shift), sd

    def _told(self, asked: ScaledRuns) -> tuple[Floats, Floats]:
        """By the fit and the processes."""
        values = torch.tensor(list(self.values.values()), dtype=torch.float64)
        noise = _noise(values, len(self.excess))
        factor = torch.linalg.cholesky(_covariance(values, _gaps(self.known, self.known)) + noise)
        across = _covariance(values, _gaps(asked, self.known))
        mean = across @ torch.cholesky_solve(torch.as_tensor(self.excess)[:, None], factor)[:, 0]
        told = torch.linalg.solve_triangular(factor, across.T, upper=False).square().sum(0)
        own = torch.diagonal(_covariance(values, _gaps(asked, asked))) + noise[0, 0]
        return self.fit_.predict(asked) * np.exp(mean.numpy()), (own - told).clamp_min(0.0).sqrt().numpy()


@dataclass(frozen=True)
class _Steps:
    """Steps to more accelerators.

    Attributes:
        known: n configurations that were measured.
        log_seconds: (n,) of them.
        beyond: m of them, the largest number of accelerators of each job.
        off: (m,) log of predicted over measured seconds, of a fit and processes that had none of these.
    """

    known: ScaledRuns
    log_seconds: Floats
    beyond: ScaledRuns
    off: Floats

    def weighed(self, asked: ScaledRuns, log_seconds: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """(n,) what steps of others add to predicted log seconds, and the deviation thereafter.

        By two models at least. Weights are inverse variances, of a median about others: robust, as these are few, and
        with `_USUAL` as what one further model says.
        """
        shift, sd = np.zeros(len(asked)), sd.copy()
        for i in range(len(asked)):
            start = self._start(asked, i)
            if not len(start):
                continue
            step, count = self._others(asked, i, int(start[0]))
            alike = self._alike(self.beyond, asked, i)
            if count < 2 or not alike.any():
                continue
            middle, judged = float(np.median(step)), len(np.unique(self.beyond.model[alike]))
            each = _variance(step - middle, count) * (1 + 1 / count), _variance(self.off[alike], judged)
            weight = 1 / (np.array(each) + _NOISE**2)
            other = float(self.log_seconds[start].mean()) + middle - log_seconds[i]
            shift[i], sd[i] = weight[0] * other / weight.sum(), np.sqrt(1 / weight.sum())
        return shift, sd

    def _start(self, asked: ScaledRuns, i: int) -> Ints:
        """Runs of the job's largest number so far in the placement, at the nearest batch; none if it is not less."""
        known = self.known
        own = (known.model == asked.model[i]) & (known.device == asked.device[i]) & (known.spread == asked.spread[i])
        most = known.accelerators[own].max(initial=0.0)
        if not 0 < most < asked.accelerators[i]:
            return np.zeros(0, np.int64)
        at = np.flatnonzero(own & (known.accelerators == most))
        batch = np.unique(known.batch[at])
        far = np.abs(np.log(batch / most) - np.log(asked.batch[i] / asked.accelerators[i]))
        nearest: Ints = at[known.batch[at] == batch[far.argmin()]]
        return nearest

    def _others(self, asked: ScaledRuns, i: int, start: int) -> tuple[Floats, int]:
        """What the step did to the log seconds of other models on the device; and of how many."""
        known = self.known
        alike = self._alike(known, asked, i)
        before = np.flatnonzero(alike & (known.accelerators == known.accelerators[start]))
        after = np.flatnonzero(alike & (known.accelerators == asked.accelerators[i]))
        growth = np.log(known.batch[after] / known.batch[before][:, None])
        same = np.abs(growth - np.log(asked.batch[i] / known.batch[start])) < _SAME_GROWTH
        a, b = np.nonzero(same & (known.model[before][:, None] == known.model[after]))
        return self.log_seconds[after[b]] - self.log_seconds[before[a]], len(np.unique(known.model[before[a]]))

    def _alike(self, runs: ScaledRuns, asked: ScaledRuns, i: int) -> Bools:
        """Of other models on the device, placed as is asked about."""
        here = (runs.device == asked.device[i]) & (runs.spread == asked.spread[i])
        result: Bools = here & (runs.model != asked.model[i])
        return result


def _largest(runs: ScaledRuns) -> Bools:
    """Which have the most accelerators of their job, if it has others."""
    job = np.unique(runs.job, return_inverse=True)[1]
    most, least = np.full(job.max() + 1, -np.inf), np.full(job.max() + 1, np.inf)
    np.maximum.at(most, job, runs.accelerators)
    np.minimum.at(least, job, runs.accelerators)
    result: Bools = (runs.accelerators == most[job]) & (least < most)[job]
    return result


def _variance(off: Floats, count: int) -> float:
    """From the median distance, of so many models, and one that is off by what is usual."""
    return float((count * (1.48 * np.median(np.abs(off))) ** 2 + _USUAL**2) / (count + 1))


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

"""Seconds of an iteration from what a model computes and what it is given: batch, FLOPs, parameters; CPU and memory.

Of one model a few allocations were tried, of another model other ones. So log time is a sum of five processes: of the
model's figures, of the model itself, of the allocation, of the allocation of this model, and of everything together;
and noise, of a configuration and of each of its runs. Of a model's figures the kernel is exponential: times of models
with nearly the same figures differ, and with a smoother one those that nobody has run were off by more. The others are
Matérn-3/2: time goes smoothly with what is given. All lengths and variances are fitted by the marginal likelihood under
weak log-normal priors (Rasmussen and Williams, 2006, Eqs. 2.30 and 5.9).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError
from mfcp.threads import one_thread

_START = {
    "of_model": [0.0, 0.0], "of_allocation": [0.0, 0.0], "of_own": [0.0, 0.0], "of_all": [0.5, 0.5],
    "variance": [0.0, -1.0, -1.0, -2.0, -1.0], "noise": [-4.0, -3.5],
}  # fmt: skip
"""Logarithms: lengths in deviations of a feature, repeated for every one; variances in those of log time; noise."""
_PRIOR_SD = 1.5
_STEPS, _LR = 150, 0.08
_JITTER = 1e-8


@dataclass(frozen=True)
class Allocations:
    """n runs, or configurations to predict.

    Attributes:
        work: (n, p) positive figures of the model: batch, FLOPs, parameters.
        given: (n, q) positive: CPU and memory, in whatever unit.
    """

    work: Floats
    given: Floats

    def __post_init__(self) -> None:
        """Check what logarithms are taken of.

        Raises:
            DataError: numbers that are not positive and finite, or rows that do not match.
        """
        if len(self.work) != len(self.given):
            raise DataError(f"allocations: {len(self.work)} rows of work and {len(self.given)} of what is given")
        for name in ("work", "given"):
            bad = ~(np.isfinite(getattr(self, name)) & (getattr(self, name) > 0)).all(axis=1)
            if bad.any():
                raise DataError(f"allocations: row {int(bad.argmax())} of {name} is not positive; drop it or mend it")

    def take(self, rows: Ints) -> Allocations:
        """Some of the rows."""
        return Allocations(self.work[rows], self.given[rows])


@dataclass(frozen=True)
class AllocatedTimes:
    """What was learned: the distinct configurations, and lengths and variances.

    Attributes:
        seen: C distinct configurations.
        log_time, runs: (C,) mean log seconds of its runs, and how many.
        values: logarithms by name, as `_START`.
    """

    seen: Allocations
    log_time: Floats
    runs: Ints
    values: dict[str, Floats]

    @classmethod
    @one_thread()
    def fit(cls, runs: Allocations, seconds: Floats, *, advance: Callable[[], Any] = lambda: None) -> AllocatedTimes:
        """Learn from runs; the same runs give the same numbers. A second for 250 configurations.

        Args:
            runs: n runs; equal rows are one configuration.
            seconds: (n,) of an iteration.
            advance: called once per step.

        Raises:
            DataError: fewer than two configurations, or seconds that are not positive.
        """
        if len(seconds) != len(runs.work) or not (np.isfinite(seconds) & (seconds > 0)).all():
            raise DataError(f"allocations: {len(runs.work)} runs need as many positive seconds; check the log")
        whole = np.concatenate([runs.work, runs.given], axis=1)
        _, first, of, count = np.unique(whole, axis=0, return_index=True, return_inverse=True, return_counts=True)
        if len(first) < 2:
            raise DataError(f"allocations: {len(first)} configurations; there must be two to learn from")
        log_time = np.bincount(of.ravel(), np.log(seconds)) / count
        fitted = cls(runs.take(first), log_time, count, {})
        widths = {"of_model": runs.work.shape[1], "of_allocation": runs.given.shape[1], "of_own": runs.given.shape[1]}
        start = {
            name: torch.tensor(
                values if name in ("variance", "noise")
                else [values[0]] * widths.get(name, runs.work.shape[1] + runs.given.shape[1]),
                dtype=torch.float64,
            )
            for name, values in _START.items()
        }  # fmt: skip
        learned = {name: value.clone().requires_grad_() for name, value in start.items()}
        x, y = fitted._features(fitted.seen), torch.from_numpy(fitted._standard())
        optimizer = torch.optim.Adam(list(learned.values()), lr=_LR)
        for _ in range(_STEPS):
            optimizer.zero_grad()
            covariance = _kernel(learned, x, x) + fitted._noise(learned)
            with torch.no_grad():
                factor = torch.linalg.cholesky(covariance)
                alpha = torch.cholesky_solve(y[:, None], factor)
                slope = (torch.cholesky_inverse(factor) - alpha @ alpha.T) / 2
            moved = torch.cat([learned[name] - start[name] for name in start])
            surprise = (moved**2).sum() / (2 * _PRIOR_SD**2)
            torch.autograd.backward([covariance, surprise], [slope, None])
            optimizer.step()
            advance()
        values = {name: value.detach().numpy().copy() for name, value in learned.items()}
        return cls(fitted.seen, log_time, count, values)

    @one_thread()
    def predict(self, asked: Allocations) -> Floats:
        """(n,) median seconds."""
        seconds: Floats = np.exp((self._across(asked) @ self._solved[1]).numpy() * self._scale() + self.log_time.mean())
        return seconds

    @one_thread()
    def spread(self, asked: Allocations) -> Floats:
        """(n,) standard deviation of log seconds of a run."""
        values = self._tensors
        told = torch.linalg.solve_triangular(self._solved[0], self._across(asked).T, upper=False).square().sum(0)
        variance = values["variance"].exp().sum() - told + values["noise"].exp().sum()
        deviation: Floats = np.sqrt(np.maximum(variance.numpy(), 0.0)) * self._scale()
        return deviation

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(value) for name, value in self.values.items()}

    @cached_property
    def _solved(self) -> tuple[Tensor, Tensor]:
        """The factor of the covariance of what was seen, and what it solves."""
        x = self._features(self.seen)
        factor = torch.linalg.cholesky(_kernel(self._tensors, x, x) + self._noise(self._tensors))
        return factor, torch.cholesky_solve(torch.from_numpy(self._standard())[:, None], factor)[:, 0]

    def _across(self, asked: Allocations) -> Tensor:
        """(n, C) covariances of runs with what was seen: a run has the noise of its configuration, if that was."""
        across = _kernel(self._tensors, self._features(asked), self._features(self.seen))
        place = {row: k for k, row in enumerate(_rows(self.seen))}
        at = np.array([place.get(row, -1) for row in _rows(asked)], np.int64)
        known = np.flatnonzero(at >= 0)
        across[known, at[known]] += self._tensors["noise"].exp()[0]
        return across

    def _scale(self) -> float:
        return max(float(self.log_time.std()), 1e-6)

    def _standard(self) -> Floats:
        standard: Floats = (self.log_time - self.log_time.mean()) / self._scale()
        return standard

    def _noise(self, values: dict[str, Tensor]) -> Tensor:
        between, within = values["noise"].exp()
        return torch.diag(between + within / torch.from_numpy(self.runs.astype(np.float64)) + _JITTER)

    def _features(self, asked: Allocations) -> tuple[Tensor, Tensor, Tensor]:
        """Standardised logarithms of work and of what is given, and which model of `seen` it is, -1 for none."""
        parts = []
        for name in ("work", "given"):
            known = np.log(getattr(self.seen, name))
            deviation = np.maximum(known.std(axis=0), 1e-6)
            parts.append(torch.from_numpy((np.log(getattr(asked, name)) - known.mean(axis=0)) / deviation))
        models: dict[tuple[float, ...], int] = {}
        for row in self.seen.work.tolist():
            models.setdefault(tuple(row), len(models))
        own = np.array([models.get(tuple(row), -1) for row in asked.work.tolist()], np.int64)
        return parts[0], parts[1], torch.from_numpy(own)


def _rows(of: Allocations) -> list[tuple[float, ...]]:
    return [tuple(row) for row in np.concatenate([of.work, of.given], axis=1).tolist()]


def _kernel(values: dict[str, Tensor], a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
    """(n, m) covariances without noise."""
    same = (a[2][:, None] == b[2][None]).double()
    parts = (
        torch.exp(-_distance(a[0], b[0], values["of_model"])),
        same,
        _smooth(a[1], b[1], values["of_allocation"]),
        same * _smooth(a[1], b[1], values["of_own"]),
        _smooth(torch.cat(a[:2], 1), torch.cat(b[:2], 1), values["of_all"]),
    )
    total: Tensor = sum(weight * part for weight, part in zip(values["variance"].exp(), parts, strict=True))
    return total


def _smooth(a: Tensor, b: Tensor, log_length: Tensor) -> Tensor:
    """Matérn-3/2."""
    r = math.sqrt(3) * _distance(a, b, log_length)
    return (1 + r) * torch.exp(-r)


def _distance(a: Tensor, b: Tensor, log_length: Tensor) -> Tensor:
    """(n, m) distances in lengths."""
    length = log_length.exp()
    return torch.cdist(a / length, b / length, compute_mode="donot_use_mm_for_euclid_dist").clamp_min(1e-9)

"""Seconds of an iteration by number of accelerators and batch: computing and communicating, fitted to profiled runs.

    t(g, b) = (T_c^w + T_n^w)^(1/w)        w in (1, ∞): from one after the other to both at once
    T_c = c (f + (1 - f) b / (B g))        c seconds of B, the most samples of one accelerator, f of them in any case
    T_n = 0 for g = 1, n (1 + r (g - 2)) within a node, k n (1 + q (g - 2)) over nodes

The form is Pollux's (Qiao et al., OSDI 2021, Eqs. 9 to 11); Optimus and Shockwave fit others of its kind. A job was
tried in a handful of configurations, which cannot tell seven numbers. So what jobs have in common, the median and the
spread of each number over the jobs that tell it, is learned with them in turns (empirical Bayes): that is what speaks
for numbers of accelerators that a job was never given. The network does not know the device: where a model's jobs on
several devices agree more on the seconds k n than jobs do on k, another device expects these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError

_NUMBERS = ("log c", "logit f", "log n/c", "log k", "log r", "log q", "log (w - 1)")
_FIRST_MEAN = np.array([0.0, -3.0, -1.5, 0.3, -2.0, -5.0, 0.0])
_FIRST_SD = np.array([3.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0])
_LEAST_SD = np.array([3.0, 0.5, 0.3, 0.3, 0.2, 0.2, 0.3])
_MOST_SD = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
_NOISE = 0.05  # of log time
_ROUNDS = 4
_NEVER = 1e-12


@dataclass(frozen=True)
class ScaledRuns:
    """n configurations of jobs.

    Attributes:
        model, device: (n,) names of models and of kinds of accelerators. A job is a model on a device.
        batch: (n,) samples of an iteration, over all accelerators.
        accelerators: (n,) how many.
        spread: (n,) whether they are on several nodes.
    """

    model: Texts
    device: Texts
    batch: Floats
    accelerators: Floats
    spread: Bools

    def __post_init__(self) -> None:
        """Check lengths and values.

        Raises:
            DataError: batches below 0 or accelerators below 1, or not as many as jobs.
        """
        for name in ("device", "batch", "accelerators", "spread"):
            shape = getattr(self, name).shape
            if shape != self.model.shape:
                raise DataError(f"configurations: {len(self.model)} models, {name} has shape {shape}")
        for name, least in (("batch", np.nextafter(0, 1)), ("accelerators", 1.0)):
            values = getattr(self, name)
            bad = ~(np.isfinite(values) & (values >= least))
            if bad.any():
                raise DataError(f"configurations: {name} of row {int(bad.argmax())} is too small; drop it or mend it")

    def __len__(self) -> int:
        """How many."""
        return len(self.model)

    @property
    def job(self) -> Texts:
        """(n,) names of jobs."""
        return np.array([f"{model} on {device}" for model, device in zip(self.model, self.device, strict=True)])

    def take(self, rows: Ints | Bools) -> ScaledRuns:
        """Some of them."""
        return ScaledRuns(
            self.model[rows], self.device[rows], self.batch[rows], self.accelerators[rows], self.spread[rows]
        )


@dataclass(frozen=True)
class ScalingFit:
    """What was learned.

    Attributes:
        jobs: (J,) sorted names.
        values: (J, 7) numbers of each, as the formula has them, log c first.
        largest: (J,) B.
    """

    jobs: Texts
    values: Floats
    largest: Floats

    @classmethod
    def fit(cls, known: ScaledRuns, seconds: Floats) -> ScalingFit:
        """Learn from profiled configurations.

        Args:
            known: n of them.
            seconds: (n,) of an iteration.

        Raises:
            DataError: no runs, or seconds that are not positive and finite.
        """
        if len(seconds) != len(known) or not len(seconds) or not (np.isfinite(seconds) & (seconds > 0)).all():
            raise DataError(f"scaling: {len(known)} configurations need as many positive seconds; check the table")
        jobs, of = np.unique(known.job, return_inverse=True)
        share = known.batch / known.accelerators
        largest = np.array([share[of == j].max() for j in range(len(jobs))])
        values = np.tile(_FIRST_MEAN, (len(jobs), 1))
        for j in range(len(jobs)):
            own = np.flatnonzero(of == j)
            least = own[known.accelerators[own].argmin()]
            values[j, 0] = np.log(seconds[least]) + 0.8 * np.log(known.accelerators[least])
        expected, sd = np.tile(_FIRST_MEAN, (len(jobs), 1)), _FIRST_SD
        for _ in range(_ROUNDS):
            for j in range(len(jobs)):
                expected[j, 0] = values[j, 0]
                values[j] = _fitted(known.take(of == j), np.log(seconds[of == j]), largest[j], expected[j], sd)
            expected, sd = _in_common(known, of, values)
        return cls(jobs, values, largest)

    def predict(self, asked: ScaledRuns) -> Floats:
        """(n,) seconds of an iteration.

        Raises:
            DataError: a job that no run was learned of.
        """
        unknown = sorted(set(asked.job.tolist()) - set(self.jobs.tolist()))
        if unknown:
            raise DataError(f"scaling: no run of {', '.join(unknown)} was learned; profile one configuration of each")
        at = np.searchsorted(self.jobs, asked.job)
        return np.exp(_log_seconds(self.values[at].T, asked, self.largest[at]))


def _in_common(known: ScaledRuns, of: Ints, values: Floats) -> tuple[Floats, Floats]:
    """(J, 7) numbers that are expected of each job, and (7,) how far they are from there."""
    J = len(values)
    own = np.arange(J)[:, None] == of
    inside = (own & ~known.spread & (known.accelerators > 1)).any(axis=1)
    across = (own & known.spread).any(axis=1)
    some = inside | across
    told = np.column_stack([np.ones((J, 2), bool), some, inside & across, inside, across, some])
    mean, spread = _FIRST_MEAN.copy(), _FIRST_SD.copy()
    for k in range(len(mean)):
        if told[:, k].any():
            mean[k], spread[k] = _middle(values[told[:, k], k])
    expected = np.tile(mean, (J, 1))
    model, network = known.model[own.argmax(axis=1)], values[:, [0, 2, 3]].sum(axis=1)
    for j in range(J):
        kin = network[across & (model == model[j]) & (np.arange(J) != j)]
        if len(kin) > 1 and _middle(kin)[1] < spread[3]:
            expected[j, 3] = _middle(kin)[0] - values[j, 0] - values[j, 2]
    return expected, np.clip(spread, _LEAST_SD, _MOST_SD)


def _middle(values: Floats) -> tuple[float, float]:
    """Median, and deviation by the median distance from it."""
    median = float(np.median(values))
    return median, 1.48 * float(np.median(np.abs(values - median)))


def _log_seconds(values: Floats, asked: ScaledRuns, largest: Floats | float) -> Floats:
    log_c, logit_f, log_n, log_k, log_r, log_q, log_w = values
    fixed, w = 1 / (1 + np.exp(-logit_f)), 1 + np.exp(log_w)
    compute = np.exp(log_c) * (fixed + (1 - fixed) * asked.batch / (largest * asked.accelerators))
    growth = 1 + np.exp(np.where(asked.spread, log_q, log_r)) * np.maximum(asked.accelerators - 2, 0)
    talk = np.exp(log_c + log_n + np.where(asked.spread, log_k, 0.0)) * growth
    talk = np.where(asked.accelerators == 1, _NEVER, talk)
    # Both by the larger one, so that no power overflows.
    most = np.maximum(compute, talk)
    result: Floats = np.log(most) + np.log((compute / most) ** w + (talk / most) ** w) / w
    return result


def _fitted(own: ScaledRuns, log_seconds: Floats, largest: float, expected: Floats, sd: Floats) -> Floats:
    """(7,) numbers of one job."""
    from scipy.optimize import least_squares

    def residual(x: Floats) -> Floats:
        return np.append((_log_seconds(x, own, largest) - log_seconds) / _NOISE, (x - expected) / sd)

    found: Floats = least_squares(residual, expected, max_nfev=300).x
    return found

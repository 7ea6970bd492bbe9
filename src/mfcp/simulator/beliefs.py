"""What a policy believes about durations, apart from what is true."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import brentq
from scipy.stats import norm

from mfcp.arrays import Floats
from mfcp.errors import SettingsError
from mfcp.registry import Registered
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.qore.loss_curves import Form


class Durations(Registered):
    """A source of expected durations."""

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """(n,) seconds that each job is expected to take on the accelerators that it asks for; NaN where unknown."""
        raise NotImplementedError


class TrueDurations(Durations):
    """The true durations."""

    name: ClassVar[str] = "oracle"

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """As they are."""
        return jobs.duration


class NoDurations(Durations):
    """No durations: policies that ask for them cannot run."""

    name: ClassVar[str] = "nothing"

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """Unknown."""
        return np.full(len(jobs.id), np.nan)


class GivenDurations(Durations):
    """Durations from elsewhere, such as a release's predictions for the cluster."""

    name: ClassVar[str] = "predicted"
    seconds: tuple[float, ...] = Field(description="of each job, in order of submission")

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """As they were given.

        Raises:
            SettingsError: not one positive number for every job.
        """
        expected = np.array(self.seconds, float)
        if expected.shape != jobs.submit.shape or not (expected > 0).all():
            raise SettingsError(f"belief 'predicted': expected {len(jobs.id)} positive seconds, one for every job")
        return expected


class LossDurations(Durations):
    """Told from losses: all epochs that a job may take, and as it trains, those until its losses hardly decline."""

    name: ClassVar[str] = "losses"
    form: Form = Field("power", description="of the curve that is fitted: power, or inverse, that of Optimus and SLAQ")

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """Nothing, without losses.

        Raises:
            SettingsError: always; `mfcp.simulator.simulation.simulate` has the losses.
        """
        raise SettingsError("belief 'losses' is told from losses of training; give them (--losses FILE)")


class NoisyDurations(Durations):
    """True durations times independent factors of mean 1: `mre` is the mean of |factor - 1|."""

    name: ClassVar[str] = "error"
    mre: float = Field(0.25, ge=0, lt=1)
    law: Literal["lognormal", "uniform", "two_point"] = "lognormal"

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """A factor a job, drawn once."""
        n = len(jobs.id)
        if self.mre == 0:
            return jobs.duration
        if self.law == "two_point":
            factor = 1 + self.mre * rng.choice([-1.0, 1.0], n)
        elif self.law == "uniform":
            factor = np.maximum(1 + 2 * self.mre * rng.uniform(-1, 1, n), 0.01)
        else:
            sigma = brentq(lambda s: 2 * (2 * norm.cdf(s / 2) - 1) - self.mre, 0, 20)  # E|factor - 1| of mean 1
            factor = np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)
        result: Floats = jobs.duration * factor
        return result


class DurationsOfBefore(Durations):
    """The mean duration of the user's jobs that had ended before, of as many accelerators if there are some.

    Ends are submission plus duration: a job that waited would have ended later, so a little is known too early.
    Without a job of the user, the mean of all that had ended; without any, an hour.
    """

    name: ClassVar[str] = "history"

    def durations(self, jobs: Jobs, rng: np.random.Generator) -> Floats:
        """From what was over at each job's submission."""
        by_both = _mean_before(
            jobs, np.unique(np.stack([_codes(jobs.user), jobs.gpus]), axis=1, return_inverse=True)[1]
        )
        by_user = _mean_before(jobs, _codes(jobs.user))
        by_none = _mean_before(jobs, np.zeros(len(jobs.id), np.int64))
        expected = np.where(np.isnan(by_both), np.where(np.isnan(by_user), by_none, by_user), by_both)
        return np.where(np.isnan(expected), 3600.0, expected)


def _codes(names: np.ndarray) -> np.ndarray:
    return np.unique(names, return_inverse=True)[1]


def _mean_before(jobs: Jobs, group: np.ndarray) -> Floats:
    """(n,) mean duration of the jobs of one's group that had ended at one's submission; NaN without one."""
    end = jobs.submit + jobs.duration
    by_end = np.lexsort((end, group))
    total = np.concatenate([[0.0], np.cumsum(jobs.duration[by_end])])
    scale = max(float(end.max(initial=0.0)), float(jobs.submit.max(initial=0.0))) + 1.0
    position = np.searchsorted(group[by_end] * scale + end[by_end], group * scale + jobs.submit, side="right")
    first = np.searchsorted(group[by_end], group)
    count = position - first
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(count > 0, (total[position] - total[first]) / count, np.nan)
    return mean

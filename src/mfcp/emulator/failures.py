"""Why runs end: memory, the job's own errors, interruptions, outages of an owner and wall-clock limits.

A run that starts while its owner's site is up succeeds when it fits, meets no error of its own, is not interrupted,
sees no outage and ends within the limit:

    P(success | duration d) = p_up (1 - p_memory) (1 - p_job)^difficulty exp(-(hazard + outage_rate) d) 1[d <= limit]

Outages hit all runs of an owner at once; `p_up` is the share of time without one. A footprint above the memory fails
every time; one close to it sometimes (fragmentation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats, Ints

USABLE_MEMORY = 0.97
_QUANTILES = 201


@dataclass(frozen=True)
class Outcomes:
    """What a run of each task on each cluster is subject to, (n, M) unless said; rates are per second."""

    duration: Floats  # seconds without noise, start-up included; nan where the task was never tried
    startup: Floats  # (M,) seconds
    sigma: Floats  # (M,) log-normal run-to-run noise
    job_failure: Floats  # (M,) share of runs that fail for reasons that do not grow with their length
    difficulty: Floats  # (n,) exponent on its complement, 1 for the usual task
    memory: Floats  # probability of running out of memory, 1 where the footprint exceeds it
    hazard: Floats  # (M,) interruptions
    outage_rate: Floats  # (M,) outages of the owner
    outage_mean: Floats  # (M,) seconds that one lasts
    limit: Floats  # (M,) seconds

    @property
    def fits(self) -> Bools:
        """Whether the task fits the accelerator's memory and its time there is known, (n, M)."""
        return (self.memory < 1) & np.isfinite(self.duration)

    @property
    def job_risk(self) -> Floats:
        """(n, M) probability of a failure that does not depend on the duration."""
        return 1 - (1 - self.job_failure) ** self.difficulty[:, None]

    def changed(self, slowdown: Floats, hazard: Floats) -> Outcomes:
        """With (M,) factors on what follows the start-up, and on interruptions."""
        duration = self.startup + (self.duration - self.startup) * slowdown
        return replace(self, duration=duration, hazard=self.hazard * hazard)

    def noisy(self, z: Floats, cluster: Ints | slice = slice(None), pair: Floats | None = None) -> Floats:
        """Durations at standard normal `z`; the noise has mean 1 and does not touch the start-up."""
        duration = self.duration if pair is None else pair
        startup, sigma = self.startup[cluster], self.sigma[cluster]
        return startup + (duration - startup) * np.exp(sigma * z - sigma**2 / 2)

    def expected(self) -> tuple[Floats, Floats]:
        """Expected duration of a successful run and success probability, (n, M) each, by quadrature over the noise.

        Both are nan and 0 where no run can succeed.
        """
        weight = np.zeros(self.duration.shape)
        total = np.zeros(self.duration.shape)
        fits, rate = self.fits, self.hazard + self.outage_rate
        for z in _normal_quantiles():
            duration = self.noisy(z)
            with np.errstate(invalid="ignore"):
                success = np.exp(-rate * duration) * (duration <= self.limit) / _QUANTILES
            weight += np.where(fits, success, 0.0)
            total += np.where(fits, success * duration, 0.0)
        ready = np.exp(-self.outage_rate * self.outage_mean) * (1 - self.job_risk) * (1 - self.memory)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(fits, total / weight, np.nan)
        return mean, ready * weight

    def draw(
        self,
        task: Ints,
        cluster: Ints,
        cancelled: float,
        rng: np.random.Generator,
        *,
        until_outage: Floats | None = None,
        slowdown: Floats | float = 1.0,
        risk: Floats | float = 1.0,
    ) -> pd.DataFrame:
        """One run per entry of `task` and `cluster`: status, error, duration_s and noise factor on the step time.

        Args:
            task, cluster: (R,) indices.
            cancelled: share of runs that their users stop.
            rng: draws in a fixed order, so the same generator state gives the same runs.
            until_outage: (R,) seconds from the start of the run to the next outage, 0 during one; default: never.
            slowdown, risk: (R,) factors on what follows the start-up, and on the hazard, at the time of the run.
        """
        startup = self.startup[cluster]
        pair = startup + (self.duration[task, cluster] - startup) * slowdown
        full = self.noisy(rng.standard_normal(len(task)), cluster, pair)
        limit = self.limit[cluster]
        spent = rng.random(len(task))
        interruption = rng.exponential(1 / (self.hazard[cluster] * risk))
        outage = np.full(len(task), np.inf) if until_outage is None else until_outage
        end = np.minimum(full, limit)
        # The first cause that applies decides; the rest of the row's draws are not looked at.
        causes = [
            ("failed", "outage", outage <= 0, startup * (0.2 + 0.8 * spent)),
            ("oom", "out of memory", rng.random(len(task)) < self.memory[task, cluster], startup * (0.5 + spent)),
            ("cancelled", "", rng.random(len(task)) < cancelled, startup + spent * (full - startup)),
            (
                "failed",
                "job",
                rng.random(len(task)) < self.job_risk[task, cluster],
                startup + spent**2 * (full - startup),
            ),
            ("failed", "interrupted", interruption < np.minimum(end, outage), interruption),
            ("failed", "outage", outage < end, outage),
            ("timeout", "wall-clock limit", full > limit, limit),
        ]
        conditions = [applies for _, _, applies, _ in causes]
        return pd.DataFrame(
            {
                "status": np.select(conditions, [status for status, *_ in causes], "succeeded"),
                "error": np.select(conditions, [error for _, error, *_ in causes], ""),
                "duration_s": np.select(conditions, [seconds for *_, seconds in causes], full),
                "noise": slowdown * (full - startup) / (pair - startup),
            }
        )


def draw_outages(rate: float, mean: float, length: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Starts and ends of a site's outages within `length` seconds, merged where they overlap, in order.

    Args:
        rate: per second.
        mean: seconds, of an exponential length.
    """
    count = rng.poisson(rate * length)
    if not count:
        return np.zeros(0), np.zeros(0)
    starts = np.sort(rng.random(count) * length)
    reach = np.maximum.accumulate(starts + rng.exponential(mean, count))
    opens = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([opens[1:], [True]])
    return starts[opens], reach[last]


def until_outage(moment: Floats, starts: Floats, ends: Floats) -> Floats:
    """(R,) seconds from each moment to the next outage, 0 during one, inf after the last."""
    following = np.searchsorted(starts, moment, side="right")
    wait = np.concatenate([starts, [np.inf]])[following] - moment
    during = moment < np.concatenate([[-np.inf], ends])[following]
    return np.where(during, 0.0, wait)


def memory_risk(footprint: Floats, memory: Floats) -> Floats:
    """Probability that a run ends out of memory: certain above the usable memory, rare well below it."""
    share = footprint / memory
    return np.where(share > USABLE_MEMORY, 1.0, 0.5 / (1 + np.exp((0.93 - share) / 0.015)))


def _normal_quantiles() -> Floats:
    """Midpoints of equally likely strata of the standard normal."""
    from scipy.stats import norm

    return np.asarray(norm.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES), np.float64)

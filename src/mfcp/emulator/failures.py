"""Why runs end: memory, interruptions, task errors and wall-clock limits, as probabilities and as drawn runs.

A run succeeds when it starts, meets no error of its own, is not interrupted and ends within the limit:

    P(success | duration d) = (1 - p_start)(1 - p_error)(1 - p_memory) exp(-hazard · d) 1[d <= limit]

with hazard = accelerators · accelerator_hazard + network_hazard of the owner. A footprint above the
memory fails every time; one close to it sometimes (fragmentation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

USABLE_MEMORY = 0.97
_QUANTILES = 201


@dataclass(frozen=True)
class Outcomes:
    """What a run of each task on each cluster is subject to, (n, M) unless said."""

    duration: Floats  # seconds without noise, start-up included
    startup: Floats  # (M,) seconds
    sigma: Floats  # (M,) log-normal run-to-run noise
    start_failure: Floats  # (M,)
    error: Floats  # (n,) probability of the task's own failure
    memory: Floats  # probability of running out of memory, 1 where the footprint exceeds it
    hazard: Floats  # (M,) interruptions per second
    limit: Floats  # (M,) seconds

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the task fits the accelerator's memory at all, (n, M)."""
        return self.memory < 1

    def noisy(self, z: Floats, cluster: NDArray[np.int64] | slice = slice(None), pair: Floats | None = None) -> Floats:
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
        for z in _normal_quantiles():
            duration = self.noisy(z)
            success = np.exp(-self.hazard * duration) * (duration <= self.limit) / _QUANTILES
            weight += success
            total += success * duration
        ready = (1 - self.start_failure) * (1 - self.error[:, None]) * (1 - self.memory)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(self.fits, total / weight, np.nan)
        return mean, ready * weight

    def draw(
        self, task: NDArray[np.int64], cluster: NDArray[np.int64], cancelled: float, rng: np.random.Generator
    ) -> pd.DataFrame:
        """One run per entry of `task` and `cluster`: status, error, duration_s and noise factor on the step time.

        Args:
            task, cluster: (R,) indices.
            cancelled: share of runs that their users stop.
            rng: draws in a fixed order, so the same generator state gives the same runs.
        """
        pair = self.duration[task, cluster]
        startup = self.startup[cluster]
        full = self.noisy(rng.standard_normal(len(task)), cluster, pair)
        limit = self.limit[cluster]
        spent = rng.random(len(task))
        interruption = rng.exponential(1 / self.hazard[cluster])
        # The first cause that applies decides; the rest of the row's draws are not looked at.
        causes = [
            ("oom", "out of memory", rng.random(len(task)) < self.memory[task, cluster], startup * (0.5 + spent)),
            ("failed", "start", rng.random(len(task)) < self.start_failure[cluster], startup * (0.2 + spent)),
            ("cancelled", "", rng.random(len(task)) < cancelled, startup + spent * (full - startup)),
            ("failed", "task", rng.random(len(task)) < self.error[task], startup + spent**2 * (full - startup)),
            ("failed", "interrupted", interruption < np.minimum(full, limit), interruption),
            ("timeout", "wall-clock limit", full > limit, limit),
        ]
        conditions = [applies for _, _, applies, _ in causes]
        return pd.DataFrame(
            {
                "status": np.select(conditions, [status for status, *_ in causes], "succeeded"),
                "error": np.select(conditions, [error for _, error, *_ in causes], ""),
                "duration_s": np.select(conditions, [seconds for *_, seconds in causes], full),
                "noise": (full - startup) / (pair - startup),
            }
        )


def memory_risk(footprint: Floats, memory: Floats) -> Floats:
    """Probability that a run ends out of memory: certain above the usable memory, rare well below it."""
    share = footprint / memory
    return np.where(share > USABLE_MEMORY, 1.0, 0.5 / (1 + np.exp((0.93 - share) / 0.015)))


def _normal_quantiles() -> Floats:
    """Midpoints of equally likely strata of the standard normal."""
    from scipy.stats import norm

    return np.asarray(norm.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES), np.float64)

"""How many samples a task processes end to end, where the log does not say."""

from __future__ import annotations

import hashlib
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.registry import Registered


class SampleCounts(Registered):
    """The family of ways to draw the samples of tasks whose log only tells a throughput."""

    varied: ClassVar[bool] = False
    """Whether replicas of one task get different samples."""

    def draw(self, source_task: list[str], replica: list[int], flops: Floats, *, seed: int) -> Floats:
        """(n,) samples of each task.

        Args:
            source_task: (n,) ids in the tasks table.
            replica: (n,) number of the copy of that task.
            flops: (n,) work of one sample, nan counts as the median.
            seed: of the draw.
        """
        raise NotImplementedError


class Fixed(SampleCounts):
    """Every task processes the same number of samples."""

    name: ClassVar[str] = "fixed"
    value: float = Field(default=1e6, gt=0, description="samples of every task")

    def draw(self, source_task: list[str], replica: list[int], flops: Floats, *, seed: int) -> Floats:
        """(n,) the fixed value."""
        return np.full(len(source_task), self.value)


class LogNormal(SampleCounts):
    """samples = median · (flops / median flops)^-flops_exponent · exp(sigma · z), z standard normal.

    The exponent keeps the tasks' total work alike: with equal counts one very large model decides every
    round's makespan. On timm's inference tasks 0.7 leaves the least spread of log time (1.38 at 0, 0.43 at 0.7,
    0.69 at 1): small models use a device worse. z is drawn from a hash of seed,
    task and replica, so that adding a task leaves every other task's draw as it was.
    """

    name: ClassVar[str] = "log_normal"
    varied: ClassVar[bool] = True
    median: float = Field(default=1e6, gt=0, description="samples of a task of median FLOPs")
    sigma: float = Field(default=0.5, ge=0, description="spread of log samples")
    flops_exponent: float = Field(default=0.7, ge=0, le=2, description="1 gives every task the same total of FLOPs")

    def draw(self, source_task: list[str], replica: list[int], flops: Floats, *, seed: int) -> Floats:
        """(n,) drawn samples."""
        known = np.isfinite(flops) & (flops > 0)
        relative = np.ones(len(flops))
        if known.any():
            relative[known] = flops[known] / np.median(flops[known])
        z = np.array([_normal(f"{seed}/{task}/{copy}") for task, copy in zip(source_task, replica, strict=True)])
        result: Floats = self.median * relative**-self.flops_exponent * np.exp(self.sigma * z)
        return result


def _normal(key: str) -> float:
    """A standard normal number that depends on the key alone."""
    digest = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    return NormalDist().inv_cdf((digest + 0.5) / 2**64)

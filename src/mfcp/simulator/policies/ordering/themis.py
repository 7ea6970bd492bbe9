"""Finish-time fairness on accelerators of one type."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import brentq

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Instant, Keys, Ordering, Uses, View


class Themis(Ordering):
    """Jobs by their fair part of the time over the time that they have had.

    At every event, parts x minimise the largest ratio of a job's time to finish under x to that under an equal split:
    max_i (waited_i + left_i / x_i) / (past_i + left_i / equal_i), sum_i gpus_i x_i at most what there is, x_i <= 1. It
    stands in for the auction of leases of Mahajan et al., "Themis", NSDI 2020, as the simulators of Gavel and Muri do.
    """

    name: ClassVar[str] = "themis"
    uses: ClassVar[Uses] = ("expected",)
    preempts: ClassVar[bool] = True
    asks: ClassVar[bool] = True
    unit: Literal["seconds", "iterations"] = Field(
        "seconds", description="of the time under an equal split; Muri's simulator counts iterations there"
    )

    noise: float = Field(
        0.0, ge=0, description="relative, on every part: ties by chance, as inexact solvers leave them"
    )

    def keys(self, view: View) -> Keys:
        """Unknown before the first event."""
        return Keys(np.zeros(len(view.submit)))

    def watch(self, view: View) -> Callable[[Instant], Floats]:
        """With a memory of what an equal split would have done so far."""
        return _Memory(view, self).values

    def parts(self, waited: Floats, left: Floats, alone: Floats, gpus: Ints, capacity: int, step: Floats) -> Floats:
        """(k,) x; `step` is seconds an iteration, which solvers may want for the scale of their variables."""
        return fairest_parts(waited, left, alone, gpus, capacity)


class _Memory:
    """One run: what is remembered of each job."""

    def __init__(self, view: View, policy: Themis) -> None:
        n = len(view.submit)
        self.view, self.policy, self.step = view, policy, view.expected / view.iterations
        self.scale = 1 / self.step if policy.unit == "iterations" else np.ones(n)
        self.past, self.left, self.split = np.zeros(n), np.full(n, np.nan), np.ones(n)
        self.owed, self.last, self.random = np.zeros(n), 0.0, np.random.default_rng(0)

    def values(self, instant: Instant) -> Floats:
        """Ranks by part over time received, then by what is owed, then by part, largest first."""
        rows, capacity = instant.active, self.view.cluster.accelerators
        seconds = np.maximum(instant.left, 1e-6 * self.view.expected[rows])  # some outlive the belief
        gpus, left = self.view.gpus[rows], seconds * self.scale[rows]
        done = np.where(np.isnan(self.left[rows]), 0.0, self.left[rows] - left)
        self.past[rows] += np.maximum(done, 0.0) / self.split[rows]  # a job that failed starts again
        equal = np.minimum(np.ceil(capacity / max(len(rows), 1)) / gpus, 1.0)
        self.left[rows], self.split[rows] = left, equal
        waited = instant.now - self.view.submit[rows]
        alone = self.past[rows] + left / equal
        part = self.policy.parts(waited, seconds, alone, gpus, capacity, self.step[rows])
        if self.policy.noise:
            part = part * (1 + self.policy.noise * self.random.standard_normal(len(part)))
        deficit = self.owed[rows] - instant.executed
        self.owed[rows] += part * (instant.now - self.last)
        self.last = instant.now
        fresh = instant.executed == 0
        priority = np.where(fresh, part * 1e9, part / np.where(fresh, 1.0, instant.executed))
        rank = np.empty(len(rows))
        rank[np.lexsort((-part, -deficit, -priority))] = np.arange(len(rows))
        return rank


def fairest_parts(waited: Floats, left: Floats, alone: Floats, gpus: Ints, capacity: int) -> Floats:
    """(k,) x in [0, 1], sum gpus x <= capacity, of the least max_i (waited_i + left_i / x_i) / alone_i.

    Where the largest ratio is that of a job with x = 1, the parts of the others are free within bounds; they are then
    the centre that an interior-point solver of the conic program ends at.

    Raises:
        ValueError: a job with nothing left, or nothing alone.
    """
    if len(left) == 0:
        return np.empty(0)
    if left.min() <= 0 or alone.min() <= 0:
        raise ValueError("jobs must have something left")
    capped = float(((waited + left) / alone).max())  # with x = 1 for everybody
    least = left / np.maximum(capped * alone - waited, left)
    if gpus @ least >= capacity:

        def excess(ratio: float) -> float:
            return float(gpus @ (left / (ratio * alone - waited)) - capacity)

        highest = 2.0 * capped
        while excess(highest) > 0:
            highest *= 2.0
        ratio = brentq(excess, capped, highest, xtol=1e-14 * capped, rtol=1e-14)
        equal: Floats = np.minimum(left / (ratio * alone - waited), 1.0)
        return equal
    free = least < 1.0 - 1e-12
    part = np.ones(len(left))
    part[free] = _centre(least[free], gpus[free], capacity - float(gpus[~free].sum()))
    return part


def _centre(least: Floats, gpus: Ints, capacity: float) -> Floats:
    """Maximise sum 1.5 log(x - least) + log(1 - x) + log(capacity - gpus x).

    These are the barriers of cones of (x, 1/x), weighed as interior-point methods do; each 1/x is maximised out.
    """

    def at(price: float) -> Floats:  # 1.5 / (x - least) - 1 / (1 - x) = price × gpus
        p = price * gpus * (1.0 - least)  # with y = (x - least) / (1 - least): p y² - (p + 2.5) y + 1.5 = 0
        y = 3.0 / (p + 2.5 + np.sqrt((p + 2.5) ** 2 - 6.0 * p))
        return least + y * (1.0 - least)

    if len(least) == 0:
        return least

    def unequal(log_price: float) -> float:
        return float(np.exp(log_price) * (capacity - gpus @ at(np.exp(log_price))) - 1.0)

    low, high = -40.0, 40.0
    if unequal(high) < 0 or unequal(low) > 0:
        return least
    return at(float(np.exp(brentq(unequal, low, high, xtol=1e-12))))

"""Goodput: the mean of speed-ups over a fair share."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, grow


class Goodput(Deciding):
    """Maximise the power mean of speed-ups over an equal share; a change costs the job its restart.

    Qiao et al., "Pollux", OSDI 2021, and Jayaram Subramanya et al., "Sia", SOSP 2023, whose rates are goodputs:
    throughput times statistical efficiency (`goodput_rate`). Their search is replaced by steps of the largest marginal
    gain, from nothing, and from what runs now; the better of the two is taken.
    """

    name: ClassVar[str] = "goodput"
    elastic: ClassVar[bool] = True
    noise: float = Field(
        np.inf, gt=0, description="gradient noise scale in batches as large as a job's own; where nobody has measured "
        "goodputs, a batch that grows with the accelerators is worth so much less",
    )  # fmt: skip
    power: float = Field(-1.0, lt=0, description="of the mean; towards -inf it is max-min fair")
    restart_s: float = Field(30.0, ge=0, description="seconds that a change is believed to cost")
    every_s: float = Field(60.0, gt=0, description="seconds between two decisions without an event")

    def ways(self, jobs: Jobs, cluster: Cluster, speed: Floats) -> Configurations:
        """Elastic; the batch of a job grows with its accelerators beyond those that it asks for."""
        elastic = super().ways(jobs, cluster, speed)
        if np.isinf(self.noise):
            return elastic
        return replace(elastic, rate=goodput_rate(elastic.rate, elastic.gpus / jobs.gpus[:, None], self.noise, 1.0))

    def decide(self, demand: Demand) -> Allotment:
        """Two starts."""
        speedup = self._speedup(demand)
        worth = np.column_stack([-(speedup**self.power), np.full(len(demand.job), -1e9)])  # nothing is worst
        worth = np.where(np.isfinite(worth), worth, -np.inf)
        starts = (np.full(len(demand.job), -1), demand.chosen)
        plans = [grow(demand, start, worth) for start in starts]
        rows = np.arange(len(demand.job))
        best = max(plans, key=lambda plan: float(worth[rows, plan].sum()))
        return Allotment(best, demand.now + self.every_s)

    def _speedup(self, demand: Demand) -> Floats:
        """(k, C) rate over that of an equal share, lowered where the job would restart."""
        share = max(1, int(demand.size.sum() / len(demand.job)))
        near = np.where((demand.gpus <= share) & (demand.rate > 0), demand.rate, 0.0).max(axis=1)
        least = np.where(demand.rate > 0, demand.rate, np.inf).min(axis=1)
        fair = np.where(near > 0, near, least)
        age = np.maximum(demand.now - demand.submit, 1.0)[:, None]
        stays = np.arange(len(demand.gpus)) == demand.chosen[:, None]
        factor = np.where(stays | (demand.executed == 0)[:, None], 1.0, age / (age + self.restart_s))
        speedup: Floats = demand.rate / fair[:, None] * factor
        return np.where(speedup > 0, speedup, 1e-12)


def goodput_rate(throughput: Floats, batch: Floats, noise: float, base: float) -> Floats:
    """Useful examples per second: throughput × (noise + base) / (noise + batch), the statistical efficiency.

    Args:
        throughput: (…, C) examples per second at each batch size.
        batch: (…, C) examples per step.
        noise: gradient noise scale, in examples.
        base: the batch size at which an example counts in full.
    """
    rate: Floats = throughput * (noise + base) / (noise + np.maximum(batch, base))
    return rate

"""Rounds of a gang on fewer devices than it has tasks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, fill


class Hare(Deciding):
    """Least remaining time first, each on as many devices as it has tasks, or on those that are left.

    Chen et al., "Hare", HPDC 2022, relaxed fixed-scale synchronisation: the g tasks of a round may follow each other on
    a device, and the round ends with the last (`in_rounds`). Jobs have equal weights.
    """

    name: ClassVar[str] = "hare"
    elastic: ClassVar[bool] = True
    scales: ClassVar[bool] = False
    uses: ClassVar[Uses] = ("expected",)

    def ways(self, jobs: Jobs, cluster: Cluster, speed: Floats) -> Configurations:
        """On as many devices as a job has tasks, or on fewer."""
        return in_rounds(jobs, cluster, speed)

    def decide(self, demand: Demand) -> Allotment:
        """A list schedule."""
        return Allotment(fill(demand, np.lexsort((demand.job, demand.seconds.min(axis=1))), demand.rate))


def in_rounds(jobs: Jobs, cluster: Cluster, speed: Floats) -> Configurations:
    """Jobs on accelerators of one type: a round of g tasks on d devices takes ceil(g / d) steps, d <= g."""
    most = np.minimum(cluster.by_type, jobs.gpus.max(initial=1))
    sizes = np.concatenate([np.arange(1, there + 1) for there in most])
    kinds = np.repeat(np.arange(len(most)), most)
    steps = np.ceil(jobs.gpus[:, None] / sizes)
    useful = (sizes <= jobs.gpus[:, None]) & (np.ceil(jobs.gpus[:, None] / np.maximum(sizes - 1, 1)) > steps)
    rate = np.where(useful | (sizes == 1), speed[:, kinds] / (jobs.step[:, None] * steps), 0.0)
    return Configurations(sizes, kinds, rate, np.zeros(len(sizes)))

"""Rounds of a gang on fewer devices than it has tasks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

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
    uses: ClassVar[Uses] = ("expected",)

    def decide(self, demand: Demand) -> Allotment:
        """A list schedule."""
        return Allotment(fill(demand, np.lexsort((demand.job, demand.seconds.min(axis=1))), demand.rate))


def in_rounds(jobs: Jobs, most: int) -> Configurations:
    """Jobs on 1 to `most` accelerators: a round of g tasks on d devices takes ceil(g / d) steps, d <= g."""
    sizes = np.arange(1, most + 1)
    steps = np.ceil(jobs.gpus[:, None] / sizes)
    useful = (sizes <= jobs.gpus[:, None]) & (np.ceil(jobs.gpus[:, None] / np.maximum(sizes - 1, 1)) > steps)
    rate = np.where(useful | (sizes == 1), 1.0 / (jobs.step[:, None] * steps), 0.0)
    return Configurations(sizes, np.zeros(most, np.int64), rate, np.zeros(most))

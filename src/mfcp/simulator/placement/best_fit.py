"""The machine on which least stays free."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.simulator.placement.machines import Machines, Placement, Requests


class BestFit(Placement):
    """Least of half the free cores and half the free accelerators after the task, each over a largest machine.

    Scores are whole points of 100, as schedulers of Kubernetes give them: Weng et al., "Beware of Fragmentation",
    USENIX ATC 2023.
    """

    name: ClassVar[str] = "best_fit"
    largest_cpu: int = Field(128_000, gt=0, description="thousandths of a core of a largest machine")
    largest_gpu: int = Field(8_000, gt=0, description="thousandths of accelerators of a largest machine")

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """100 if nothing stays free."""
        cpu = (machines.cpu[node] - requests.cpu) / self.largest_cpu
        gpu = (machines.left[node].sum() - requests.asked) / self.largest_gpu
        points: Floats = np.trunc((1.0 - (cpu * 0.5 + gpu * 0.5)) * 100.0)
        return points

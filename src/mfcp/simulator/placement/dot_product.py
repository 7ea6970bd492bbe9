"""The machine whose free resources are least like what is asked for."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.simulator.placement.machines import Machines, Placement, Requests


class DotProduct(Placement):
    """Least product of free and asked cores and accelerators, each over a largest machine.

    Weng et al., USENIX ATC 2023, after Grandl et al., "Tetris", SIGCOMM 2014, with its sign turned: it packs.
    """

    name: ClassVar[str] = "dot_product"
    largest_cpu: int = Field(128_000, gt=0, description="thousandths of a core of a largest machine")
    largest_gpu: int = Field(8_000, gt=0, description="thousandths of accelerators of a largest machine")

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """100 if nothing is free."""
        cpu = machines.cpu[node] / self.largest_cpu * (requests.cpu / self.largest_cpu)
        gpu = machines.left[node].sum() / self.largest_gpu * (requests.asked / self.largest_gpu)
        points: Floats = np.trunc((1.0 - (cpu + gpu) / 2.0) * 100.0)
        return points

"""Tasks of the same request together."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.placement.machines import WHOLE, Machines, Placement, Requests


class Clustering(Placement):
    """Machines that hold only tasks of the same request come first, then those that hold some, empty ones, others.

    Four bands of 25 points; within a band less free accelerators are better: Weng et al., USENIX ATC 2023. Requests
    are the same if they ask for the same number of whole accelerators, or all for a part of one.
    """

    name: ClassVar[str] = "gpu_clustering"
    largest: ClassVar[int] = 8 * WHOLE

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """0 for tasks without accelerators."""
        group = np.where((requests.gpus == 1) & (requests.milli < WHOLE), 0, requests.gpus)
        held = np.unique(group[(machines.held[node] > 0) & (requests.gpus > 0)])
        same = np.isin(group, held)
        band = np.where(same, 75 if len(held) == 1 else 50, 25 if len(held) == 0 else 0)
        within = 25 * (self.largest - machines.left[node].sum()) // self.largest
        return np.where(requests.gpus > 0, band + within, 0).astype(float)

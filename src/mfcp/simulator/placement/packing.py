"""Accelerators in part use first, then free ones of machines in use, then free machines."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.placement.machines import WHOLE, Machines, Placement, Requests


class Packing(Placement):
    """Three bands of points, 50 to 100, 33 to 50 and below 33: Weng et al., USENIX ATC 2023."""

    name: ClassVar[str] = "gpu_packing"

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """0 for tasks without accelerators."""
        count, left = machines.count[node], np.sort(machines.left[node][: machines.count[node]])
        free = int((left == WHOLE).sum())
        if free == count:
            return np.where(requests.gpus > 0, max(33 - free, free), 0).astype(float)
        able = left >= np.maximum(requests.milli, 1)[:, None]
        used = able & (able.cumsum(axis=1) <= requests.gpus[:, None])  # the tightest that suffice
        fresh = (used & (left == WHOLE)).sum(axis=1)
        shared = (used * (left * 100 // WHOLE)).sum(axis=1)
        score = np.where(fresh > 0, np.maximum(50 - fresh, 33), np.maximum(100 - shared // 10, 50))
        return np.where(requests.gpus > 0, score, 0).astype(float)

"""Any machine that fits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.placement.machines import Machines, Placement, Requests


class Random(Placement):
    """A machine and its accelerators are drawn from those that fit."""

    name: ClassVar[str] = "random"

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """All alike."""
        return np.zeros(len(requests.cpu))

    def choose(self, scores: Floats, fits: Bools, rng: np.random.Generator) -> int:
        """A draw."""
        places = np.flatnonzero(fits)
        return int(rng.choice(places)) if len(places) else -1

    def devices(self, machines: Machines, requests: Requests, kind: int, node: int, rng: np.random.Generator) -> Ints:
        """A draw."""
        places = np.flatnonzero(machines.left[node] >= max(requests.milli[kind], 1))
        return rng.permutation(places)[: requests.gpus[kind]]

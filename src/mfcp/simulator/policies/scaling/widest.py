"""Earliest deadline first, each as wide as it can."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, fill


class Widest(Deciding):
    """Jobs by their deadline, each as wide as is of use: earliest deadline first, elastic."""

    name: ClassVar[str] = "edf_widest"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("deadline",)
    by: Literal["rate", "size"] = Field("rate", description="the fastest way to run that is free, or the largest")

    def decide(self, demand: Demand) -> Allotment:
        """One by one."""
        sizes = np.broadcast_to(np.arange(float(len(demand.gpus))), demand.rate.shape)
        worth = demand.rate if self.by == "rate" else sizes
        return Allotment(fill(demand, np.lexsort((demand.job, demand.deadline)), worth))

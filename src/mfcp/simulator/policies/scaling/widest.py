"""Earliest deadline first, each as wide as it can."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand


class Widest(Deciding):
    """Jobs by their deadline, each as wide as is of use: earliest deadline first, elastic."""

    name: ClassVar[str] = "edf_widest"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("deadline",)
    by: Literal["rate", "size"] = Field("rate", description="the fastest way to run that is free, or the largest")

    def decide(self, demand: Demand) -> Allotment:
        """One by one."""
        free, chosen = demand.size.copy(), np.full(len(demand.job), -1)
        for i in np.lexsort((demand.job, demand.deadline)):
            rate = np.where(demand.gpus <= free[demand.type], demand.rate[i], 0.0)
            if rate.max() > 0:
                chosen[i] = int(rate.argmax()) if self.by == "rate" else int(np.flatnonzero(rate)[-1])
                free[demand.type[chosen[i]]] -= demand.gpus[chosen[i]]
        return Allotment(chosen)

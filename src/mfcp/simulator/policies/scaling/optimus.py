"""Accelerators where they shorten a job most."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, grow


class Optimus(Deciding):
    """One accelerator to every job in order of submission, the rest by the largest reduction of time per accelerator.

    Peng et al., "Optimus", EuroSys 2018, with the time that is left as every job's loss.
    """

    name: ClassVar[str] = "optimus"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected",)
    every_s: float = Field(600.0, gt=0, description="seconds between two decisions without an event")

    def decide(self, demand: Demand) -> Allotment:
        """Greedy."""
        worth = np.column_stack([-demand.seconds, np.full(len(demand.job), -1e15)])
        return Allotment(grow(demand, np.full(len(demand.job), -1), worth), demand.now + self.every_s)

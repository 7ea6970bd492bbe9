"""Accelerators where they lower a loss most."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Bools
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Decider, Deciding, Demand, grow
from mfcp.simulator.qore.training_losses import assumed_loss

_STARVED = 1e6  # what nothing is worth, so that every job first gets something; far below any fall


class Slaq(Deciding):
    """Quality-driven: what is free goes to the job whose loss it lowers most in the next interval, per accelerator.

    Zhang et al., "SLAQ", SoCC 2017, §4.2: the sum of all falls of normalised losses until the next decision is as large
    as steps of the largest marginal gain make it. Before that every job has its least size, as far as there is room, so
    that none starves. With the belief `losses` falls are those of curves fitted to the
    losses so far; else the loss after a part p of a job is 1 / (1 + 9 p), an assumed curve.
    """

    name: ClassVar[str] = "slaq"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected",)
    every_s: float = Field(600.0, gt=0, description="seconds between two decisions without an event")

    def start(self) -> Decider:
        """It remembers how much each job had to do."""
        return _Slaq(self.every_s)

    def decide(self, demand: Demand) -> Allotment:
        """Of jobs that nothing has been done of."""
        return self.start().decide(demand)


@dataclass(frozen=True)
class _Slaq:
    every_s: float
    whole: dict[int, float] = field(default_factory=dict)

    def admit(self, demand: Demand, new: Bools) -> Bools:
        return new

    def decide(self, demand: Demand) -> Allotment:
        jobs = demand.job.tolist()
        whole = np.array(
            [self.whole.setdefault(job, left) for job, left in zip(jobs, demand.left.tolist(), strict=True)]
        )
        part = np.clip(1.0 - demand.left / np.maximum(whole, 1e-9), 0.0, 1.0)
        further = np.minimum(demand.rate * self.every_s, demand.left[:, None])
        if demand.falls is None:
            after = part[:, None] + further / np.maximum(whole, 1e-9)[:, None]
            fall = assumed_loss(part)[:, None] - assumed_loss(after)
        else:
            fall = demand.falls(demand.job, further)
        worth = np.column_stack([np.where(demand.rate > 0, fall, -np.inf), np.full(len(jobs), -_STARVED)])
        return Allotment(grow(demand, np.full(len(jobs), -1), worth), demand.now + self.every_s)

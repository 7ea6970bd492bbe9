"""AlloX: jobs to places in the queues of devices."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import linear_sum_assignment

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares, Uses


class Allox(Shares):
    """Jobs of one accelerator to (device, place from the end) by least sum of completion times; running jobs stay.

    A job at place p from the end of a device's queue delays p jobs, itself among them, by the time that it needs there
    (Bruno, Coffman and Sethi, 1974). Only the head of each queue is given its device; the rest is decided again. Le et
    al., "AlloX", EuroSys 2020, with all waiting jobs (alpha = 1) or the part that has waited longest, but as
    many as there are free devices.

    It is made for jobs of one accelerator. Others are `held` to their end like these, or planned `anew` at every reset,
    a place in a queue as one device and their share divided by their accelerators, as in Shockwave's simulator.
    """

    name: ClassVar[str] = "allox"
    uses: ClassVar[Uses] = ("expected",)
    alpha: float = Field(1.0, gt=0, le=1, description="part of the waiting jobs that is planned, the oldest")
    gangs: Literal["held", "anew"] = Field("held", description="whether jobs of several accelerators keep them")

    def solve(self, moment: Moment) -> Floats:
        """One assignment problem."""
        share = moment.before.copy()
        each = np.ones_like(moment.gpus) if self.gangs == "anew" else moment.gpus
        held = (share == 1.0) if self.gangs == "anew" else (share > 0)
        waiting = np.flatnonzero(~held.any(axis=1))
        free = np.maximum(moment.size - each @ held, 0)
        device = np.repeat(np.arange(len(free)), free)
        waiting = waiting[: max(len(device), int(self.alpha * len(waiting)))]  # in order of submission
        if len(waiting) == 0 or len(device) == 0:
            return share
        with np.errstate(divide="ignore"):
            need = moment.left[waiting, None] / moment.speed[waiting][:, device]
        need = np.where(np.isfinite(need), need, 1e12)
        place = np.arange(1, len(waiting) + 1)
        cost = (place[:, None] * need[:, None, :]).reshape(len(waiting), -1)
        rows, columns = linear_sum_assignment(cost + moment.waited[waiting, None])
        behind, where = np.divmod(columns, len(device))
        for i in np.argsort(-behind, kind="stable"):  # the head of a queue is furthest from its end
            if device[where[i]] >= 0:
                share[waiting[rows[i]], device[where[i]]] = each[waiting[rows[i]]] / moment.gpus[waiting[rows[i]]]
                device[where[i]] = -1
        return share

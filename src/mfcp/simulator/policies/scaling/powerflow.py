"""Accelerators and frequencies within a budget of power."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand


class PowerFlow(Deciding):
    """From nothing, the step of accelerators or frequency that saves most seconds per watt, while the budget lasts.

    Gu et al., "PowerFlow" (2023): objective and budget as there, the search is ours. Without watts in the
    configurations it counts accelerators instead.
    """

    name: ClassVar[str] = "powerflow"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected",)
    budget_w: float = Field(np.inf, gt=0, description="watts of all accelerators together")
    every_s: float = Field(600.0, gt=0, description="seconds between two decisions without an event")

    def decide(self, demand: Demand) -> Allotment:
        """Greedy."""
        k = len(demand.job)
        watts = np.append(demand.watts if demand.watts.any() else demand.gpus.astype(float), 0.0)
        gpus = np.append(demand.gpus, 0)
        seconds = np.column_stack([demand.seconds, np.full(k, 1e15)])
        chosen, rows = np.full(k, -1), np.arange(k)
        free, power = demand.size.astype(np.int64).copy(), self.budget_w
        while True:
            saved = seconds[rows, chosen][:, None] - seconds[:, :-1]
            more_w = watts[None, :-1] - watts[chosen][:, None]
            more_g = gpus[None, :-1] - gpus[chosen][:, None]
            same = (chosen < 0)[:, None] | (demand.type[None, :] == demand.type[chosen][:, None])
            fits = (more_g >= 0) & (more_g <= free[demand.type]) & (more_w <= power) & same & (saved > 0)
            worth = np.where(fits, saved / np.maximum(more_w, 1e-9), -np.inf)
            if not k or worth.max() == -np.inf:
                break
            i, c = np.unravel_index(int(worth.argmax()), worth.shape)
            free[demand.type[c]] -= more_g[i, c]
            power -= more_w[i, c]
            chosen[i] = c
        return Allotment(chosen, demand.now + self.every_s)

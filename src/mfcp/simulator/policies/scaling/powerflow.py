"""Accelerators and frequencies within a budget of power."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand


class PowerFlow(Deciding):
    """From nothing, the step of accelerators or frequency that saves most seconds per watt, while the budget lasts.

    Gu et al., "PowerFlow" (2023): objective and budget as there, the search is ours. Watts are those of the
    configurations; where jobs run in none that were measured, `busy_w` makes them, at each of `clocks`. Without watts
    it counts accelerators instead, and knows no budget.
    """

    name: ClassVar[str] = "powerflow"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected",)
    budget_w: float = Field(np.inf, gt=0, description="watts of all accelerators together")
    clocks: tuple[float, ...] = Field((0.5, 0.75, 1.0), description="frequencies, as parts of the highest")
    idle_w: float = Field(0.0, ge=0, description="watts of an accelerator that waits")
    busy_w: float = Field(0.0, ge=0, description="watts of one at the highest frequency; 0 if not known")
    every_s: float = Field(600.0, gt=0, description="seconds between two decisions without an event")

    def ways(self, jobs: Jobs, cluster: Cluster, speed: Floats) -> Configurations:
        """Elastic, at every clock if watts are known; the rate follows the clock."""
        elastic = super().ways(jobs, cluster, speed)
        if self.busy_w <= 0:
            return elastic
        return elastic.with_frequencies(np.array(self.clocks), self.idle_w, self.busy_w)

    def decide(self, demand: Demand) -> Allotment:
        """Greedy.

        Raises:
            SettingsError: a budget, and nothing that tells watts.
        """
        if np.isfinite(self.budget_w) and not demand.watts.any():
            raise SettingsError("policy 'powerflow': budget_w needs watts; set busy_w, or give configurations watts")
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

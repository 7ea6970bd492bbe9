"""A knapsack of configurations."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from pydantic import Field
from scipy.optimize import Bounds, LinearConstraint, milp

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, fill


class Smd(Deciding):
    """Of all ways to share out the accelerators, the one of most utility.

    Utility of a job is one over the time from its submission to its believed end, none if it waits. Yu et al., "A
    sum-of-ratios multi-dimensional-knapsack decomposition", INFOCOM 2021, choose workers and parameter servers so,
    within several resources; here a way to run is one of `Configurations`, and the resources are types of accelerators.
    One type is solved by dynamic programming, several by HiGHS within `limit_s`.
    """

    name: ClassVar[str] = "smd"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected",)
    limit_s: float = Field(5.0, gt=0, description="seconds for the integer program of several types")
    every_s: float = Field(600.0, gt=0, description="seconds between two decisions without an event")

    def decide(self, demand: Demand) -> Allotment:
        """One knapsack, of all types together."""
        ends = (demand.now - demand.submit)[:, None] + demand.seconds
        utility = np.where(np.isfinite(ends), 1.0 / np.maximum(ends, 1e-9), -np.inf)
        if len(demand.size) == 1:
            chosen = knapsack(utility, demand.gpus, int(demand.size[0]))
        else:
            chosen = _several(utility, demand, self.limit_s)
        return Allotment(chosen, demand.now + self.every_s)


def _several(utility: Floats, demand: Demand, limit_s: float) -> Ints:
    """(k,) as `knapsack`, within every type; in the order of submission where the solver finds nothing in time."""
    job, way = np.nonzero(utility > -np.inf)
    cells, kinds = np.arange(len(job)), len(demand.size)
    once = sp.csr_matrix((np.ones(len(job)), (job, cells)), (len(utility), len(job)))
    taken = sp.csr_matrix((demand.gpus[way], (demand.type[way], cells)), (kinds, len(job)))
    rules = [LinearConstraint(once, -np.inf, 1), LinearConstraint(taken, -np.inf, demand.size)]
    cost = -utility[job, way] / utility.max()
    found = milp(cost, constraints=rules, integrality=1, bounds=Bounds(0, 1), options={"time_limit": limit_s})
    if found.x is None:
        return fill(demand, np.arange(len(utility)), utility)
    chosen = np.full(len(utility), -1)
    chosen[job[found.x > 0.5]] = way[found.x > 0.5]
    return chosen


def knapsack(utility: Floats, gpus: Ints, capacity: int) -> Ints:
    """(k,) which way each of k jobs runs, -1 for none, so that the sum of utilities is largest; by dynamic programming.

    Args:
        utility: (k, C) of each way, -inf where a job cannot run so.
        gpus: (C,) accelerators of each way, at least 1.
        capacity: accelerators.
    """
    return ways_taken(best_sums(utility, gpus, capacity)[1], gpus)


def ways_taken(took: Ints, gpus: Ints) -> Ints:
    """(k,) the way of each job within the whole capacity, of the ways that `best_sums` took."""
    chosen, room = np.full(len(took), -1), took.shape[1] - 1
    for job in range(len(took) - 1, -1, -1):
        chosen[job] = took[job, room]
        room -= int(gpus[chosen[job]]) if chosen[job] >= 0 else 0
    return chosen


def best_sums(utility: Floats, gpus: Ints, capacity: int) -> tuple[Floats, Ints]:
    """(k + 1, capacity + 1) largest sum of the first jobs within so many accelerators; (k, capacity + 1) ways taken.

    Arguments as of `knapsack`. Nothing comes before a way that is worth as much.
    """
    best, took = np.zeros((len(utility) + 1, capacity + 1)), np.full((len(utility), capacity + 1), -1)
    for job, own in enumerate(utility):
        best[job + 1] = best[job]
        for way in np.flatnonzero((own > 0) & (gpus <= capacity))[::-1].tolist():
            need = int(gpus[way])
            sums = best[job, : capacity + 1 - need] + own[way]
            better = sums > best[job + 1, need:]
            best[job + 1, need:][better] = sums[better]
            took[job, need:][better] = way
    return best, took

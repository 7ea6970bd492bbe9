"""Leases of time for jobs with deadlines."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from pydantic import Field
from scipy.optimize import Bounds, LinearConstraint, milp

from mfcp.arrays import Bools, Ints
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, fill


class Chronus(Deciding):
    """At every lease, an integer program chooses the jobs whose deadlines are met; the rest is filled up.

    Gao et al., "Chronus", SoCC 2021: maximise the number of jobs that get the leases they need before their deadline,
    within the accelerators of each lease. HiGHS has `limit_s` seconds; without a plan by then, jobs of least slack come
    first. Jobs without a deadline, or past hope, fill what is left, shortest first.
    """

    name: ClassVar[str] = "chronus"
    uses: ClassVar[Uses] = ("expected", "deadline")
    lease_s: float = Field(1200.0, gt=0, description="seconds that a job keeps its accelerators")
    horizon: int = Field(24, ge=1, description="leases ahead that are planned one by one; what is due later waits")
    limit_s: float = Field(5.0, gt=0, description="seconds for the integer program")
    whole: bool = Field(False, description="count the last lease of a job as needed to its end, as the paper does")

    def decide(self, demand: Demand) -> Allotment:
        """Where leases end, jobs that have the next one come first; in between, running jobs stay."""
        own = demand.rate.argmax(axis=1)
        rest = demand.seconds[np.arange(len(own)), own]
        need = np.ceil(rest / self.lease_s).astype(int)
        end = np.where(self.whole, self.lease_s, rest - (need - 1) * self.lease_s)  # what it needs of its last lease
        slots = np.floor((demand.deadline - demand.now - end) / self.lease_s + 1e-9) + 1
        hopeful = np.isfinite(slots) & (need <= slots)
        lease = int(demand.now / self.lease_s + 1e-9)
        first = demand.chosen >= 0
        if demand.now - lease * self.lease_s < 1e-6 * self.lease_s:
            first = np.zeros(len(own), bool)
            rows = np.flatnonzero(hopeful & (slots < self.horizon))
            if len(rows):
                first[rows] = self._leases(demand, rows, need[rows], slots[rows].astype(int))
        slack = np.where(hopeful, slots - need, np.inf)
        order = np.lexsort((rest, slack, ~first))
        stays = np.arange(len(demand.gpus)) == demand.chosen[:, None]
        return Allotment(fill(demand, order, np.where(stays, np.inf, demand.rate)), (lease + 1) * self.lease_s)

    def _leases(self, demand: Demand, rows: Ints, need: Ints, slots: Ints) -> Bools:
        """(k,) which jobs have the next lease; none if the solver found nothing in time."""
        found = solve_leases(need, slots, demand.asked[rows], int(demand.size.sum()), self.limit_s)
        return np.zeros(len(rows), bool) if found is None else found


def solve_leases(need: Ints, slots: Ints, gpus: Ints, capacity: int, limit_s: float) -> Bools | None:
    """(k,) which jobs run in the first lease of a plan that meets most deadlines; earlier leases are preferred.

    Args:
        need: (k,) leases that a job needs.
        slots: (k,) leases before its deadline.
        gpus: (k,) accelerators.
        capacity: of a lease.
        limit_s: seconds for the solver.

    Returns:
        None if the solver found nothing in time.
    """
    k, horizon = len(need), int(slots.max())
    job, slot = (grid.ravel() for grid in np.meshgrid(np.arange(k), np.arange(horizon), indexing="ij"))
    usable = slot < slots[job]
    job, slot = job[usable], slot[usable]
    cells = np.arange(len(job))
    whole = sp.csr_matrix((np.ones(len(job)), (job, cells)), (k, len(job)))
    taken = sp.csr_matrix((gpus[job], (slot, cells)), (horizon, len(job)))
    rules = [
        LinearConstraint(sp.hstack([whole, -sp.diags(need.astype(float))]), 0, 0),
        LinearConstraint(sp.hstack([taken, sp.csr_matrix((horizon, k))]), -np.inf, capacity),
    ]
    late = 0.5 * slot / max(horizon, 1) / max(int(need.sum()), 1)  # all delays together weigh less than one job
    cost = np.concatenate([late, -np.ones(k)])
    found = milp(cost, constraints=rules, integrality=1, bounds=Bounds(0, 1), options={"time_limit": limit_s})
    if found.x is None:
        return None
    first = np.zeros(k, bool)
    first[job[(slot == 0) & (found.x[: len(job)] > 0.5)]] = True
    return first

"""Completion and tardiness of rigid jobs on devices of several types."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Deciding, Demand, fill

NODES = 2_000  # of the search: what is best by then is taken


class Hydra(Deciding):
    """Queues of devices with the least sum of completion times and `penalty` × tardiness; running jobs stay.

    Yang et al., "Hydra" (TPDS 2023): objective as there. Up to `exact` waiting jobs by branch and bound, at most
    `NODES` of its tree; more by insertion and swaps. For jobs of one accelerator; others start in order of submission
    where they fit.
    """

    name: ClassVar[str] = "hydra"
    uses: ClassVar[Uses] = ("expected",)
    penalty: float = Field(5.0, ge=0, description="cost of a second late, in seconds of completion time")
    exact: int = Field(6, ge=1, le=10, description="waiting jobs up to which the plan is optimal")

    def decide(self, demand: Demand) -> Allotment:
        """Plan the waiting jobs on the devices that come free; start the heads of the queues."""
        chosen = demand.chosen.copy()
        ready, kinds = _devices(demand)
        waiting = np.flatnonzero((chosen < 0) & (demand.rate[:, demand.gpus == 1] > 0).any(axis=1))
        if len(waiting) and len(ready):
            need = _need(demand, waiting, kinds)
            queues = best_queues(need, ready, demand.deadline[waiting] - demand.now, self.penalty, self.exact)
            for device, queue in enumerate(queues):
                if queue and ready[device] <= 0:
                    chosen[waiting[queue[0]]] = _one(demand, kinds[device])
        others = np.flatnonzero((chosen < 0) & ~(demand.rate[:, demand.gpus == 1] > 0).any(axis=1))
        return Allotment(fill(demand, others, demand.rate, chosen))


def _devices(demand: Demand) -> tuple[Floats, Ints]:
    """Seconds until each device is free, and its type; wide jobs take several."""
    ready, kinds = list[float](), list[int]()
    for kind, size in enumerate(demand.size):
        runs = np.flatnonzero((demand.chosen >= 0) & (demand.type[demand.chosen] == kind))
        held = demand.gpus[demand.chosen[runs]]
        busy = np.repeat(demand.seconds[runs, demand.chosen[runs]], held)
        ready += [*busy, *([0.0] * int(size - held.sum()))]
        kinds += [kind] * int(size)
    return np.array(ready), np.array(kinds)


def _need(demand: Demand, rows: Ints, kinds: Ints) -> Floats:
    """(w, devices) seconds of jobs of one accelerator."""
    single = np.full((len(rows), len(demand.size)), np.inf)
    for c in np.flatnonzero(demand.gpus == 1):
        single[:, demand.type[c]] = np.minimum(single[:, demand.type[c]], demand.seconds[rows, c])
    return single[:, kinds]


def _one(demand: Demand, kind: int) -> int:
    return int(np.flatnonzero((demand.gpus == 1) & (demand.type == kind))[0])


def cost_of(queue: list[int], device: int, need: Floats, ready: Floats, due: Floats, penalty: float) -> float:
    """Sum of completion times and penalised tardiness of a device's queue."""
    end = ready[device] + np.cumsum(need[queue, device])
    return float((end + penalty * np.maximum(end - due[queue], 0.0)).sum()) if queue else 0.0


def best_queues(need: Floats, ready: Floats, due: Floats, penalty: float, exact: int) -> list[list[int]]:
    """A queue of jobs for every device.

    Args:
        need: (w, D) seconds of job and device; infinite where it cannot run.
        ready: (D,) seconds until the device is free.
        due: (w,) seconds until the deadline; infinite without one.
        penalty: cost of a second late.
        exact: number of jobs up to which all sequences are searched.
    """
    due = np.where(np.isfinite(due), due, 1e18)
    plan = _by_insertion(need, ready, due, penalty)
    if len(need) <= exact:
        return _search(need, ready, due, penalty, plan)
    return plan


def _total(queues: list[list[int]], need: Floats, ready: Floats, due: Floats, penalty: float) -> float:
    return sum(cost_of(queue, d, need, ready, due, penalty) for d, queue in enumerate(queues))


def _by_insertion(need: Floats, ready: Floats, due: Floats, penalty: float) -> list[list[int]]:
    """Jobs by their shortest time, each where it adds least; then neighbours change places while that helps."""
    queues: list[list[int]] = [[] for _ in ready]
    order = np.lexsort((need.min(axis=1), due)) if penalty else np.argsort(need.min(axis=1), kind="stable")
    for job in order:
        now = [cost_of(queue, d, need, ready, due, penalty) for d, queue in enumerate(queues)]
        best = (np.inf, 0, 0)
        for d, queue in enumerate(queues):
            if np.isinf(need[job, d]):
                continue
            for place in {0, len(queue) // 2, len(queue)}:
                tried = [*queue[:place], int(job), *queue[place:]]
                best = min(best, (cost_of(tried, d, need, ready, due, penalty) - now[d], d, place))
        queues[best[1]].insert(best[2], int(job))
    for d, queue in enumerate(queues):
        better = True
        while better:
            better = False
            for i, _ in enumerate(pairwise(queue)):
                tried = [*queue[:i], queue[i + 1], queue[i], *queue[i + 2 :]]
                gain = cost_of(queue, d, need, ready, due, penalty) - cost_of(tried, d, need, ready, due, penalty)
                if gain > 1e-9:
                    queue[:] = tried
                    better = True
    return queues


def _search(need: Floats, ready: Floats, due: Floats, penalty: float, start: list[list[int]]) -> list[list[int]]:
    """Branch and bound: append a job to a queue; those left are bounded by their shortest time, alone."""
    best, nodes = [_total(start, need, ready, due, penalty)], [0]
    plan = [[list(queue) for queue in start]]
    alone = (need + ready).min(axis=1)
    bound = alone + penalty * np.maximum(alone - due, 0.0)

    def extend(queues: list[list[int]], ends: Floats, left: frozenset[int], cost: float) -> None:
        nodes[0] += 1
        if nodes[0] > NODES or cost + sum(bound[j] for j in left) >= best[0] - 1e-9:
            return
        if not left:
            best[0], plan[0] = cost, [list(queue) for queue in queues]
            return
        for device in range(len(ends)):
            if device and not queues[device] and not queues[device - 1] and _same(need, ends, device):
                continue  # devices that are alike are filled in turn
            for job in left:
                end = ends[device] + need[job, device]
                if np.isinf(end):
                    continue
                queues[device].append(job)
                after = ends.copy()
                after[device] = end
                extend(queues, after, left - {job}, cost + end + penalty * max(end - due[job], 0.0))
                queues[device].pop()

    extend([[] for _ in ready], ready.copy(), frozenset(range(len(need))), 0.0)
    return plan[0]


def _same(need: Floats, ends: Floats, device: int) -> bool:
    return bool(ends[device] == ends[device - 1] and (need[:, device] == need[:, device - 1]).all())

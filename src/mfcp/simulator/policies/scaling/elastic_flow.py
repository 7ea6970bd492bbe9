# mypy: allow-untyped-decorators
"""ElasticFlow: the least sizes that meet all deadlines, and the rest where it costs least."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Bools, Floats, Ints
from mfcp.compiling import kernel
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Decider, Deciding, Demand
from mfcp.simulator.policies.scaling.elastic_growth import (
    STEPS,
    Planned,
    arrays_of,
    by_deadline,
    grown_as_published,
    largest,
    least_level,
    merged,
    parted,
    rounded,
)


class ElasticFlow(Deciding):
    """Minimum satisfactory shares, admission by them, and greedy growth.

    Gu et al., "ElasticFlow", ASPLOS 2023, Algorithms 1 and 2. Jobs are planned by deadline: each takes the smallest
    size with which it ends in time on what the plans before it have left free. A new job is taken if all the plans
    still meet their deadlines. What is free now goes, size by size, where a step costs least accelerator-time. It plans
    on one type of accelerator.
    """

    name: ClassVar[str] = "elastic_flow"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected", "deadline")
    instead: ClassVar[str] = "optimus or edf_widest"

    strict: bool = Field(False, description="new jobs are taken together or not at all, and a late one keeps them out")
    slot_s: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="as the authors' code has it: plans end with a slot of so many"
        " seconds, and what is free goes where it costs most; 0 for the paper's rule",
    )  # fmt: skip

    def admit(self, demand: Demand, new: Bools) -> Bools:
        """One after another, in order of submission."""
        if self.strict:
            return np.full(len(new), True) if minimum_shares(demand, self.slot_s).met.all() else ~new
        admitted = ~new
        for i in np.flatnonzero(new):
            admitted[i] = True
            some = demand.rows(admitted)
            met = np.empty(len(demand.job), bool)
            met[admitted] = minimum_shares(some, self.slot_s).met
            admitted[i] = met[admitted & (new | self._could(demand))].all()
        return admitted

    def decide(self, demand: Demand) -> Allotment:
        """Shares now, then growth; again when a plan changes."""
        return self.start().decide(demand)

    def start(self) -> Decider:
        """With a memory of the plans that were promised."""
        return _Promises(self)

    @staticmethod
    def _could(demand: Demand) -> Bools:
        """(k,) which jobs can end in time at all; one that no longer can keeps no other out."""
        possible: Bools = demand.now + demand.seconds.min(axis=1) <= demand.deadline
        return possible


class _Promises:
    """One run. A plan that meets all deadlines is kept, and followed where a new one would not."""

    def __init__(self, policy: ElasticFlow) -> None:
        self.admit, self.slot_s, self.promised = policy.admit, policy.slot_s, dict[int, tuple[Floats, Ints]]()

    def decide(self, demand: Demand) -> Allotment:
        """New plans if they keep all promises, else the old ones."""
        plan = minimum_shares(demand, self.slot_s)
        if self.slot_s:
            plan, order = grown_as_published(demand, plan, self.slot_s)
            return Allotment(plan.at(demand.now)[0], plan.changes(demand.now), order, plan.ends)
        held = np.array([job in self.promised for job in demand.job.tolist()], bool)
        if plan.met[held].all():
            rows = np.flatnonzero(plan.met)
            self.promised = {int(demand.job[i]): (plan.time[i], plan.level[i]) for i in rows}
        else:
            time, level = np.full(plan.time.shape, np.inf), np.full(plan.level.shape, -1)
            for i in np.flatnonzero(held):
                time[i], level[i] = self.promised[int(demand.job[i])]
            plan = Planned(held, time, level, plan.cost)
        chosen, change = plan.at(demand.now)
        return Allotment(_grow_cheaply(demand, chosen), change)


def minimum_shares(demand: Demand, slot_s: float = 0.0) -> Planned:
    """Plan all jobs by deadline: each takes the smallest sizes that suffice on what is left free.

    With slots a job holds what it has to the end of its last one, and deadlines count by the second.
    """
    k = len(demand.job)
    plan = Planned(np.zeros(k, bool), np.full((k, STEPS), np.inf), np.full((k, STEPS), -1), np.zeros(k))
    if k:
        room = np.empty(4 * k + 8), np.empty(4 * k + 8, np.int64), np.empty(4 * k + 8, np.int64)
        _plan(*arrays_of(demand, by_deadline(demand)), *room, plan, slot_s)
    return plan


def _grow_cheaply(demand: Demand, chosen: Ints) -> Ints:
    """Steps to the next larger size, the one that adds least accelerator-time per accelerator first."""
    chosen, rows = chosen.copy(), np.arange(len(chosen))
    free = int(demand.size[0] - demand.gpus[chosen[chosen >= 0]].sum())
    spent = np.column_stack([demand.seconds * demand.gpus, np.full(len(chosen), np.inf)])
    held = np.append(demand.gpus, 0)
    while free > 0 and len(rows):
        larger = (demand.gpus[None, :] > held[chosen][:, None]) & (demand.rate > 0)
        faster = demand.rate > np.where(chosen >= 0, demand.rate[rows, chosen], 0.0)[:, None]
        following = np.where(larger & faster, demand.gpus[None, :], np.iinfo(np.int64).max).argmin(axis=1)
        step = demand.gpus[following] - held[chosen]
        fits = (larger & faster)[rows, following] & (step <= free)
        with np.errstate(invalid="ignore"):
            price = (spent[rows, following] - spent[rows, chosen]) / np.maximum(step, 1)
        price = np.where(fits, np.where(chosen < 0, -np.inf, price), np.inf)
        i = int(price.argmin())
        if not fits[i]:
            break
        free -= int(step[i])
        chosen[i] = following[i]
    return chosen


# Over 10 positional parameters: compiled code takes arrays, and tells their types apart by position.
@kernel
def _plan(
    now: float, order: Ints, deadline: Floats, left: Floats, rate: Floats, gpus: Ints, capacity: int, time: Floats,
    free: Ints, given: Ints, plan: Planned, slot_s: float,
) -> None:  # fmt: skip
    """Free accelerators are a step function: `free[s]` from `time[s]` to `time[s + 1]`."""
    count = 1
    time[0] = now
    free[0] = capacity
    for job in order:
        level, point = least_level(0, count, time, free, deadline[job], left[job], rate[job], gpus)
        slot_end = now + rounded(deadline[job] - now, slot_s) if slot_s > 0 else deadline[job]
        top, due = (level, slot_end) if level >= 0 else (len(gpus) - 1, np.inf)
        if slot_s > 0 and level < 0:  # what is late loses what is left of the slot of its deadline
            count = parted(count, time, free, slot_end)
        todo, end, last, cost = left[job], now, 0, 0.0
        for s in range(count):
            if time[s] >= due:
                break
            until = min(time[s + 1] if s + 1 < count else np.inf, due)
            given[s] = largest(free[s], top if s >= point else top - 1, rate[job], gpus)
            last = s
            if given[s] >= 0:
                speed = rate[job, given[s]]
                span = (deadline[job] if until == slot_end else until) - time[s]
                if todo <= speed * span * (1 + 1e-12):
                    end = time[s] + rounded(todo / speed, slot_s)
                    todo = 0.0
                    cost += gpus[given[s]] * ((time[s + 1] if s + 1 < count and time[s + 1] < due else end) - time[s])
                    break
                todo -= speed * span
                cost += gpus[given[s]] * (until - time[s])
        plan.cost[job] = cost
        plan.met[job] = level >= 0 and todo <= 1e-9 * left[job] + 1e-12
        if todo > 0:
            end = min(due, time[last + 1] if last + 1 < count else due)
        steps = 0
        for s in range(last + 2):
            level = given[s] if s <= last else -1
            if steps == 0 or level != plan.level[job, steps - 1]:
                steps = min(steps, STEPS - 1)
                plan.time[job, steps] = time[s] if s <= last else end
                plan.level[job, steps] = level
                steps += 1
        if end <= time[last]:
            last -= 1
        elif end < (time[last + 1] if last + 1 < count else np.inf):
            count = parted(count, time, free, end)
        for s in range(last + 1):
            if given[s] >= 0:
                free[s] -= gpus[given[s]]
        if slot_s > 0:
            count = merged(count, time, free)

# mypy: allow-untyped-decorators
"""How ElasticFlow's own simulator gives what is free: by plans in whole slots, to whom it costs most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.compiling import kernel
from mfcp.simulator.policies.deciding import Demand

STEPS = 24  # of a plan; one with more keeps its last


class Planned(NamedTuple):
    """Plans of k jobs.

    Attributes:
        met: (k,) whether the deadline is met.
        time, level: (k, STEPS) when a job's configuration changes, infinite beyond the last, and to which; -1 for none.
        cost: (k,) accelerator-seconds, where they count: the last piece is counted to the next change of anybody's plan
            that is before the deadline.
    """

    met: Bools
    time: Floats
    level: Ints
    cost: Floats

    def at(self, now: float) -> tuple[Ints, float]:
        """(k,) configuration now, and when the first changes."""
        rows, step = np.arange(len(self.time)), (self.time <= now).sum(axis=1) - 1
        following = np.where(self.time > now, self.time, np.inf).min(initial=np.inf)
        return np.where(step >= 0, self.level[rows, step], -1), float(following)

    @property
    def ends(self) -> Floats:
        """(k,) the last change of each job."""
        found: Floats = np.where(np.isfinite(self.time), self.time, -np.inf).max(axis=1, initial=-np.inf)
        return found

    def changes(self, now: float) -> float:
        """When the first job changes, which is not to end."""
        between = (self.time > now) & (self.time < self.ends[:, None])
        return float(np.where(between, self.time, np.inf).min(initial=np.inf))


def grown_as_published(demand: Demand, plan: Planned, slot_s: float) -> tuple[Planned, Ints]:
    """Plans with more now, and the order (k,) in which jobs are placed.

    The authors' code (github.com/pkusys/ElasticFlow) gives a job its next larger size until the next change of
    anybody's plan, plans the rest anew, and counts by how much more accelerator-time that is, for each accelerator that
    is added. The one with the most comes first, whoever has none before all others; the paper says the one with the
    least.
    """
    found = Planned(plan.met.copy(), plan.time.copy(), plan.level.copy(), plan.cost.copy())
    order = by_deadline(demand)
    if len(order):
        _grow(*arrays_of(demand, order), slot_s, *found[1:])
    return found, order


def by_deadline(demand: Demand) -> Ints:
    """(k,) rows by deadline, then in order of submission."""
    order: Ints = np.lexsort((demand.job, demand.deadline))
    return order


def arrays_of(demand: Demand, order: Ints) -> tuple[float, Ints, Floats, Floats, Floats, Ints, int]:
    """What kernels take of a demand on accelerators of one type."""
    return demand.now, order, demand.deadline, demand.left, demand.rate, demand.gpus, int(demand.size[0])


@kernel
def rounded(seconds: float, slot_s: float) -> float:
    """To whole seconds and whole slots, up; as it is without slots."""
    return seconds if slot_s <= 0 else np.ceil(np.ceil(seconds) / slot_s) * slot_s


@kernel
def largest(free: int, most: int, rate: Floats, gpus: Ints) -> int:
    """The largest configuration up to `most` that fits; -1 if none does."""
    for level in range(most, -1, -1):
        if rate[level] > 0 and gpus[level] <= free:
            return level
    return -1


@kernel
def least_level(
    begin: int, count: int, time: Floats, free: Ints, deadline: float, left: float, rate: Floats, gpus: Ints
) -> tuple[int, int]:
    """The smallest configuration that ends in time from step `begin` on, and the first step in which it is needed.

    -1 if none does.
    """
    for level in range(len(gpus)):
        if rate[level] <= 0:
            continue
        done, until = 0.0, deadline
        for s in range(count - 1, begin - 1, -1):
            if time[s] >= deadline:
                continue
            given = largest(free[s], level, rate, gpus)
            if given >= 0:
                done += rate[given] * (until - time[s])
            until = time[s]
            if done >= left:
                return level, s
    return -1, 0


# Over 10 positional parameters: compiled code takes arrays, and tells their types apart by position.
@kernel
def _grow(
    now: float, order: Ints, deadline: Floats, left: Floats, rate: Floats, gpus: Ints, capacity: int, slot_s: float,
    time: Floats, level: Ints, cost: Floats,
) -> None:  # fmt: skip
    """Plans and `order` are changed in place."""
    k = len(order)
    at, free = np.empty(k * STEPS + 2), np.empty(k * STEPS + 2, np.int64)
    own_at, own_free = np.empty(k * STEPS + 2), np.empty(k * STEPS + 2, np.int64)
    new_time, new_level, new_cost = np.empty((k, STEPS)), np.empty((k, STEPS), np.int64), np.empty(k)
    held, step, price = np.zeros(k, np.int64), np.zeros(k, np.int64), np.full(k, -np.inf)
    spare, chosen = capacity, -1
    for j in range(k):
        if time[j, 0] <= now and level[j, 0] >= 0:
            held[j] = gpus[level[j, 0]]
            spare -= held[j]
    while spare > 0 or chosen >= 0:  # once more after the last one, for the order
        count = _profile(now, time, level, gpus, capacity, at, free)
        for j in range(k):
            following = _next_level(held[j], rate[j], gpus)
            step[j] = gpus[following] - held[j] if following >= 0 else capacity + 1
            if following >= 0 and step[j] <= spare:
                own = _without(count, at, free, time[j], level[j], gpus, own_at, own_free)
                new_cost[j] = _replanned(
                    now, following, own, own_at, own_free, deadline[j], left[j], rate[j], gpus, slot_s, new_time[j],
                    new_level[j],
                )  # fmt: skip
                price[j] = (new_cost[j] - cost[j]) / step[j] if held[j] > 0 else np.inf
            elif following >= 0:
                price[j] = -np.inf
        _sort(order, price)
        chosen = -1
        for j in order:
            if step[j] <= spare:
                chosen = j
                break
        if chosen < 0:
            break
        time[chosen], level[chosen], cost[chosen] = new_time[chosen], new_level[chosen], new_cost[chosen]
        held[chosen] += step[chosen]
        spare -= step[chosen]


@kernel
def _next_level(held: int, rate: Floats, gpus: Ints) -> int:
    for level in range(len(gpus)):
        if gpus[level] > held and rate[level] > 0:
            return level
    return -1


@kernel
def _sort(order: Ints, price: Floats) -> None:
    """The highest first; equal ones keep their order."""
    for r in range(1, len(order)):
        job, q = order[r], r
        while q > 0 and price[order[q - 1]] < price[job]:
            order[q] = order[q - 1]
            q -= 1
        order[q] = job


@kernel
def _profile(now: float, time: Floats, level: Ints, gpus: Ints, capacity: int, at: Floats, free: Ints) -> int:
    """What all plans leave free: `free[s]` from `at[s]` to `at[s + 1]`; how many such steps."""
    count = 1
    at[0] = now
    for j in range(len(time)):
        for s in range(STEPS):
            if now < time[j, s] < np.inf:
                at[count] = time[j, s]
                count += 1
    at[:count].sort()
    distinct = 1
    for s in range(1, count):
        if at[s] > at[distinct - 1]:
            at[distinct] = at[s]
            distinct += 1
    free[:distinct] = 0
    for j in range(len(time)):
        before = 0
        for s in range(STEPS):
            if not time[j, s] < np.inf:
                break
            held = gpus[level[j, s]] if level[j, s] >= 0 else 0
            free[np.searchsorted(at[:distinct], max(time[j, s], now))] += held - before
            before = held
    used = 0
    for s in range(distinct):
        used += free[s]
        free[s] = capacity - used
    steps: int = merged(distinct, at, free)
    return steps


@kernel
def merged(count: int, at: Floats, free: Ints) -> int:
    """Steps without a difference made one; how many are left."""
    kept = 1
    for s in range(1, count):
        if free[s] != free[kept - 1]:
            at[kept], free[kept] = at[s], free[s]
            kept += 1
    return kept


@kernel
def parted(count: int, at: Floats, free: Ints, moment: float) -> int:
    """A step that goes on at a moment made two; how many there are."""
    place = np.searchsorted(at[:count], moment)
    if (place < count and at[place] == moment) or place == 0:
        return count
    for s in range(count, place, -1):
        at[s], free[s] = at[s - 1], free[s - 1]
    at[place], free[place] = moment, free[place - 1]
    return count + 1


@kernel
def _without(
    count: int, at: Floats, free: Ints, time: Floats, level: Ints, gpus: Ints, own_at: Floats, own_free: Ints
) -> int:
    """The profile without a job's own plan."""
    a, b, held, found = 0, 0, 0, 0
    room = 0
    while a < count or (b < STEPS and time[b] < np.inf):
        moment = min(at[a] if a < count else np.inf, time[b] if b < STEPS else np.inf)
        if a < count and at[a] == moment:
            room = free[a]
            a += 1
        if b < STEPS and time[b] == moment:
            held = gpus[level[b]] if level[b] >= 0 else 0
            b += 1
        if found == 0 or room + held != own_free[found - 1]:
            own_at[found], own_free[found] = moment, room + held
            found += 1
    return found


# Over 10 positional parameters: as above.
@kernel
def _replanned(
    now: float, level: int, count: int, at: Floats, free: Ints, deadline: float, left: float, rate: Floats, gpus: Ints,
    slot_s: float, time: Floats, levels: Ints,
) -> float:  # fmt: skip
    """The plan of a job with a level until the profile's next change, and least shares from there; what it costs."""
    time[:], levels[:] = np.inf, -1
    time[0], levels[0] = now, level
    due = now + rounded(deadline - now, slot_s)
    until = at[1] if count > 1 else due
    end = now + rounded(left / rate[level], slot_s)
    if until <= now or (end <= until and np.ceil(now + left / rate[level]) <= deadline) or count == 1:
        time[1] = end
        alone: float = gpus[level] * (end - now)
        return alone
    todo, cost = left - rate[level] * (min(until, deadline) - now), float(gpus[level] * (until - now))
    least, point = least_level(1, count, at, free, deadline, todo, rate, gpus)
    top, steps = least if least >= 0 else len(gpus) - 1, 1
    if least < 0 and due > until:  # what is late loses what is left of the slot of its deadline
        count = parted(count, at, free, due)
    for s in range(1, count):
        until = at[s + 1] if s + 1 < count else np.inf
        span = (deadline if until == due else until) - at[s]
        given = largest(free[s], top if s >= point else top - 1, rate, gpus)
        if given != levels[steps - 1] and steps < STEPS - 1:
            time[steps], levels[steps] = at[s], given
            steps += 1
        if given >= 0:
            if todo <= rate[given] * span * (1 + 1e-12):
                time[steps] = at[s] + rounded(todo / rate[given], slot_s)
                spent: float = cost + gpus[given] * ((until if until < due else time[steps]) - at[s])
                return spent
            todo -= rate[given] * span
            cost += gpus[given] * (until - at[s])
    return cost

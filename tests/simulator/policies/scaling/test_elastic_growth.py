"""Growth as ElasticFlow's own simulator has it, beside a slow one."""

from math import ceil, inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.scaling.elastic_flow import minimum_shares
from mfcp.simulator.policies.scaling.elastic_growth import grown_as_published

SLOT = 60.0


class Slow:
    """The same rule with lists: a plan is [(when, accelerators), …], and ends with no accelerators."""

    def __init__(self, seen, plan):
        self.seen, self.now, self.slot = seen, seen.now, SLOT
        self.plans = [
            [(t, int(seen.gpus[level]) if level >= 0 else 0) for t, level in zip(times, levels, strict=True) if t < inf]
            for times, levels in zip(plan.time, plan.level, strict=True)
        ]
        self.cost, self.order = plan.cost.tolist(), sorted(range(len(self.plans)), key=lambda j: seen.deadline[j])

    def grow(self):
        price = [-inf] * len(self.plans)
        held = [self.at(j, self.now) for j in range(len(self.plans))]
        spare = int(self.seen.size[0]) - sum(held)
        again = spare > 0
        while again:
            offers = {}
            for j, own in enumerate(held):
                larger = [c for c in range(len(self.seen.gpus)) if self.seen.gpus[c] > own and self.seen.rate[j, c] > 0]
                if larger:
                    step = int(self.seen.gpus[larger[0]]) - own
                    price[j] = -inf
                    if step <= spare:
                        offers[j] = (step, *self.replan(j, larger[0]))
                        price[j] = (offers[j][2] - self.cost[j]) / step if own else inf
            self.order.sort(key=lambda j: -price[j])
            chosen = next((j for j in self.order if j in offers), None)
            again = chosen is not None
            if again:
                step, self.plans[chosen], self.cost[chosen] = offers[chosen]
                held[chosen] += step
                spare -= step
        return held

    def at(self, j, moment):
        return next((held for t, held in reversed(self.plans[j]) if t <= moment), 0)

    def free(self, j):
        """[(when, accelerators that the others leave), …]"""
        others = [i for i in range(len(self.plans)) if i != j]
        moments = sorted({self.now} | {t for i in others for t, _ in self.plans[i] if t > self.now})
        found = []
        for t in moments:
            room = int(self.seen.size[0]) - sum(self.at(i, t) for i in others)
            if not found or found[-1][1] != room:
                found.append((t, room))
        return found

    def whole(self, seconds):
        return ceil(ceil(seconds) / self.slot) * self.slot

    def fits(self, j, room, most):
        return next((c for c in range(most, -1, -1) if self.seen.rate[j, c] > 0 and self.seen.gpus[c] <= room), None)

    def replan(self, j, level):
        rate, gpus, deadline, left = self.seen.rate[j], self.seen.gpus, self.seen.deadline[j], self.seen.left[j]
        room = self.free(j)
        due = self.now + self.whole(deadline - self.now)
        if len(room) == 1 or (
            self.now + self.whole(left / rate[level]) <= room[1][0] and ceil(self.now + left / rate[level]) <= deadline
        ):
            end = self.now + self.whole(left / rate[level])
            return [(self.now, int(gpus[level])), (end, 0)], float(gpus[level] * (end - self.now))
        until = room[1][0]
        todo, cost = left - rate[level] * (min(until, deadline) - self.now), gpus[level] * (until - self.now)
        room = room[1:]
        top, point = self.least(j, room, todo)
        if top is None:
            top, point = len(gpus) - 1, 0
            if room[0][0] < due and due not in [t for t, _ in room]:
                room = sorted([*room, (due, next(r for t, r in reversed(room) if t <= due))])
        made = [(self.now, int(gpus[level]))]
        for s, (t, free) in enumerate(room):
            after = room[s + 1][0] if s + 1 < len(room) else inf
            given = self.fits(j, free, top if s >= point else top - 1)
            held = 0 if given is None else int(gpus[given])
            if held != made[-1][1]:
                made.append((t, held))
            if given is not None:
                work = rate[given] * ((deadline if after == due else after) - t)
                if todo <= work * (1 + 1e-12):
                    end = t + self.whole(todo / rate[given])
                    return [*made, (end, 0)], cost + held * ((after if after < due else end) - t)
                todo, cost = todo - work, cost + held * (after - t)
        return made, cost

    def least(self, j, room, todo):
        """The smallest size with which it ends in time, and the last step from which that size is enough."""
        deadline, rate = self.seen.deadline[j], self.seen.rate[j]
        pieces = [
            (t, min(room[s + 1][0] if s + 1 < len(room) else inf, deadline), free)
            for s, (t, free) in enumerate(room) if t < deadline
        ]  # fmt: skip
        for level in range(len(rate)):
            for point in range(len(pieces) - 1, -1, -1) if rate[level] > 0 else ():
                given = [(self.fits(j, free, level), until - t) for t, until, free in pieces[point:]]
                if sum(rate[c] * seconds for c, seconds in given if c is not None) >= todo:
                    return level, point
        return None, 0


@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), room=st.sampled_from([1, 4, 8, 13]))
@example(seed=1289, k=2, room=4)  # a job that grows to a slower size, and loses the rest of its deadline's slot
@example(seed=500390, k=3, room=8)
@example(seed=743, k=6, room=13)
@settings(max_examples=200)
def test_it_grows_as_the_slow_one_does(demand, seed, k, room):
    rng = np.random.default_rng(seed)
    curve = rng.integers(1, 20, (k, 4))
    curve = np.where(rng.random((k, 1)) < 0.7, np.sort(curve, axis=1), curve)  # more may be slower, as it is for some
    curve *= np.arange(4) < rng.integers(1, 5, (k, 1))  # not all can run on many
    left = rng.integers(50, 5000, k)
    due = np.ceil(left * rng.uniform(0.1, 3.0, k)) + rng.integers(1, 60)
    if rng.random() < 0.2:  # all alike
        curve, left, due = np.repeat(curve[:1], k, axis=0), np.repeat(left[:1], k), np.repeat(due[:1], k)
    seen = demand(curve, [room], left=left.astype(float), deadline=due)
    plan = minimum_shares(seen, SLOT)
    slow = Slow(seen, plan)
    held = slow.grow()
    found, order = grown_as_published(seen, plan, SLOT)
    level = found.at(seen.now)[0]
    assert np.where(level >= 0, seen.gpus[level], 0).tolist() == held
    assert order.tolist() == slow.order
    for j in range(k):
        ours = [(t, int(seen.gpus[c]) if c >= 0 else 0) for t, c in zip(found.time[j], found.level[j], strict=True)]
        assert [piece for piece in ours if piece[0] < inf] == slow.plans[j]
    assert sum(held) <= room


def test_what_is_free_goes_where_it_costs_most(demand):
    """The opposite of the paper's rule, which `test_elastic_flow` has."""
    seen = demand([[1.0, 1.9, 3.7], [1.0, 1.1, 1.2]], [5], deadline=[500.0, 500.0])
    assert Policy.build("elastic_flow", slot_s=SLOT).decide(seen).chosen.tolist() == [0, 2]


@pytest.mark.parametrize("slot_s", [-1.0, inf, float("nan")])
def test_a_slot_is_a_finite_number_of_seconds(slot_s):
    with pytest.raises(SettingsError, match="policy 'elastic_flow': slot_s"):
        Policy.build("elastic_flow", slot_s=slot_s)


def test_a_plan_holds_its_last_slot_to_the_end(demand):
    seen = demand([[1.0, 2.0]], [1], left=[61.0], deadline=[100.0])
    plan = minimum_shares(seen, SLOT)
    assert plan.ends.tolist() == [120.0]
    assert plan.changes(0.0) == inf
    assert plan.met.all()
    assert not minimum_shares(demand([[1.0]], [1], left=[61.0], deadline=[60.0]), SLOT).met.any()

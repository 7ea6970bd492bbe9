"""Leases."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.planning.chronus import solve_leases


def most(need, slots, gpus, capacity):
    """The most jobs that can meet their deadlines, by every choice of leases."""
    k, horizon = len(need), slots.max()
    best = 0
    ways = [[set()] + [set(c) for c in combinations(range(slots[i]), need[i])] for i in range(k)]
    for chosen in product(*ways):
        held = [sum(gpus[i] for i in range(k) if slot in chosen[i]) for slot in range(horizon)]
        if max(held) <= capacity:
            best = max(best, sum(bool(c) for c in chosen))
    return best


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_following_the_leases_meets_as_many_deadlines_as_can_be_met(seed):
    rng = np.random.default_rng(seed)
    k = 3
    slots = rng.integers(1, 5, k)
    need, gpus = rng.integers(1, slots + 1), rng.integers(1, 3, k)
    true, met = most(need, slots, gpus, 2), 0
    left, due = need.copy(), slots.copy()
    while (due > 0).any():
        rows = np.flatnonzero((left > 0) & (left <= due))
        if len(rows) == 0:
            break
        first = solve_leases(left[rows], due[rows], gpus[rows], 2, 5.0)
        assert gpus[rows][first].sum() <= 2
        left[rows[first]] -= 1
        met += int((left[rows[first]] == 0).sum())
        due -= 1
    assert met == true


def test_without_an_answer_in_time_the_tightest_come_first(demand, monkeypatch):
    monkeypatch.setattr("mfcp.simulator.policies.planning.chronus.solve_leases", lambda *_: None)
    seen = demand([[1.0], [1.0]], [1], left=[1200.0, 1200.0], deadline=[9000.0, 1300.0])
    assert Policy.build("chronus").decide(seen).chosen.tolist() == [-1, 0]


def test_jobs_past_hope_give_way(ends):
    # The first cannot meet its deadline any more; the second still can.
    late = ends("chronus", [(0, 1, 3000, 2000), (0, 1, 1000, 1300)], lease_s=100.0)
    assert late == pytest.approx([4000.0, 1000.0])


def test_a_lease_is_kept_until_it_ends(ends):
    # The second is more urgent, and waits for the end of the lease at 100 s; then the first goes on.
    first, second = ends("chronus", [(0, 1, 150, 1000), (10, 1, 100, 250)], lease_s=100.0)
    assert second == pytest.approx(200.0)
    assert first == pytest.approx(250.0)

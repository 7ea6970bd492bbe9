"""Leases."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.planning.chronus import solve_leases
from mfcp.simulator.simulation import simulate


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
@settings(max_examples=15)
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


def test_a_deadline_within_a_lease_counts_to_the_second(ends):
    # In whole leases the first is past hope at once, and gives way to a job that has all the time.
    jobs = [(0, 1, 50, 80), (0, 1, 60, 5000)]
    assert ends("chronus", jobs, lease_s=100.0) == pytest.approx([50.0, 110.0])
    late = ends("chronus", jobs, lease_s=100.0, whole=True)
    assert late[0] > 80


@pytest.mark.parametrize("seed", range(4))
def test_counting_to_the_second_meets_more_deadlines_of_short_jobs(seed):
    rng = np.random.default_rng(seed)
    duration = np.exp(rng.normal(6.5, 1.0, 60))
    submit = np.sort(rng.uniform(0, duration.sum() / 4, 60))
    jobs = Jobs.simple(submit, np.ones(60), duration, deadline=submit + duration * rng.uniform(1.5, 4.0, 60))
    exact, whole = (
        simulate(jobs, Cluster.parse("4"), Policy.build("chronus", whole=whole)).metrics()["deadlines_met"]
        for whole in (False, True)
    )
    assert exact > whole


def test_a_lease_is_kept_until_it_ends(ends):
    # The second is more urgent, and waits for the end of the lease at 100 s; then the first goes on.
    first, second = ends("chronus", [(0, 1, 150, 1000), (10, 1, 100, 250)], lease_s=100.0)
    assert second == pytest.approx(200.0)
    assert first == pytest.approx(250.0)

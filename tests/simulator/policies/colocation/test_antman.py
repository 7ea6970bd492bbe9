"""Guaranteed jobs and guests on what they leave idle, by hand and by what must hold."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def places(found):
    return [np.flatnonzero(holds).tolist() for holds in found.holds]


def test_guests_take_what_is_free_before_what_is_used(present):
    """A guaranteed job on two of four accelerators; the first guest has the others, the next shares, and no third."""
    now = present(
        [2, 2, 1, 2], [4], deadline=[9.0, np.inf, np.inf, np.inf], stages=[[1.0, 1, 1], *[[0.5, 0.5, 0.5]] * 3]
    )
    found = Policy.build("antman").start().decide(now)
    assert places(found) == [[0, 1], [2, 3], [0], []]
    assert found.step[:2].tolist() == [3.0, 3.0]
    assert found.step[2] == 3.0  # it loads while its host computes
    assert found.step[3] == np.inf


def test_a_guaranteed_job_reserves_one_by_one_and_comes_before_those_after_it(present):
    """Three of four are taken: the next job of two reserves the last one, and one of one submitted later must wait."""
    policy = Policy.build("antman").start()
    first = policy.decide(present([3, 2, 1], [4], deadline=[9.0] * 3))
    assert places(first) == [[0, 1, 2], [], []]
    now = present([2, 1], [4], deadline=[9.0] * 2, job=[1, 2])
    assert places(policy.decide(now)) == [[0, 3], [1]]


@pytest.mark.parametrize(("gpus", "expected"), [(1, [3]), (2, [6, 7])], ids=str)
def test_it_reserves_on_the_first_node_with_room(present, gpus, expected):
    """One of four is free on the first node, two on the second, three on the third."""
    found = Policy.build("antman").start().decide(present([3, 2, gpus], [4, 4, 3], deadline=[9.0] * 3))
    assert places(found) == [[0, 1, 2], [4, 5], expected]


def test_it_reserves_on_the_node_with_most_room_where_none_is_enough(present):
    now = present([3, 2, 3], [4, 4], deadline=[9.0] * 3)
    policy = Policy.build("antman").start()
    assert places(policy.decide(now)) == [[0, 1, 2], [4, 5], []]
    later = present([3, 3], [4, 4], deadline=[9.0] * 2, job=[0, 2], holds=[[True] * 3 + [False] * 5, [False] * 8])
    assert places(policy.decide(later))[1] == [4, 6, 7]


def test_guests_avoid_what_runs_before_what_is_reserved(present):
    policy = Policy.build("antman").start()
    found = policy.decide(present([3, 2, 1, 1], [4], deadline=[9.0, 9.0, np.inf, np.inf]))
    assert places(found) == [[0, 1, 2], [], [3], [0]]
    assert found.step[2] == 3.0  # the job that reserves it does not run yet


def test_a_job_larger_than_a_node_reserves_whole_ones(present):
    policy = Policy.build("antman").start()
    found = policy.decide(present([1, 6], [4, 4], deadline=[9.0, 9.0]))
    assert places(found) == [[0], [1, 2, 4, 5, 6, 7]]
    policy = Policy.build("antman").start()
    assert places(policy.decide(present([1, 8, 3], [4, 4], deadline=[9.0] * 3))) == [[0], [], [1, 2, 3]]
    now = present([8], [4, 4], deadline=[9.0], job=[1])
    assert places(policy.decide(now)) == [list(range(8))]


def test_a_guest_pauses_while_its_host_leaves_it_nothing(present):
    policy = Policy.build("antman").start()
    stages = [[0, 2.0, 0], [1.0, 1.0, 0]]
    first = policy.decide(present([1, 1], [1], deadline=[9.0, np.inf], stages=stages))
    assert first.step.tolist() == [3.0, np.inf]
    assert places(first) == [[0], []]
    later = policy.decide(present([1], [1], job=[1], stages=stages[1:]))
    assert later.step.tolist() == [3.0]
    assert places(later) == [[0]]


@pytest.mark.parametrize("seed", range(20))
def test_guests_slow_no_guaranteed_job(seed):
    rng = np.random.default_rng(seed)
    n = 40
    submit, duration = np.sort(rng.uniform(0, 600, n)), np.exp(rng.normal(4, 1, n))
    gpus, stages = rng.choice([1, 2, 4, 6, 8], n), duration[:, None] * rng.dirichlet([1, 1, 1], n)
    sure = rng.random(n) < 0.5
    both = Jobs.simple(submit, gpus, duration, stages=stages, deadline=np.where(sure, 1e9, np.inf))
    alone, cluster = both.take(np.flatnonzero(sure)), Cluster.parse("2x4")
    outcome = simulate(both, cluster, Policy.build("antman"))
    assert outcome.finished[sure] == pytest.approx(simulate(alone, cluster, Policy.build("antman")).finished)
    assert np.isfinite(outcome.finished).all()
    assert (outcome.executed >= duration * (1 - 1e-9)).all()
    assert (outcome.stops[sure] == 0).all()


def test_a_failed_job_gives_back_what_it_had_and_queues_again():
    n = 12
    rng = np.random.default_rng(0)
    jobs = Jobs.simple(
        np.zeros(n), np.full(n, 6), np.full(n, 100.0), stages=np.ones((n, 3)), success=np.full(n, 0.5),
        deadline=np.where(rng.random(n) < 0.7, 1e9, np.inf),
    )  # fmt: skip
    outcome = simulate(jobs, Cluster.parse("2x4"), Policy.build("antman"), retries=20)
    assert np.isfinite(outcome.finished).all()
    counts = outcome.log["event"].value_counts()
    assert counts["failed"] > 0
    assert counts["started"] == counts["finished"] + counts["failed"] + counts["stopped"]

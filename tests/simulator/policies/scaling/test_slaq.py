"""Sizes by the fall of assumed losses."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import simulate

EVERY_S = 10.0


def fall(done, whole, rate):
    """Of 1 / (1 + 9 p) within an interval."""
    before, after = done / whole, min(done + rate * EVERY_S, whole) / whole
    return 1 / (1 + 9 * before) - 1 / (1 + 9 * after)


@given(st.data())
def test_no_other_sizes_lower_the_losses_more(demand, data):
    """Where a further accelerator brings less than the one before, steps of the largest gain are best of all."""
    k, room = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 5))
    power = data.draw(st.lists(st.sampled_from([0.3, 0.6, 1.0]), min_size=k, max_size=k))
    whole = np.array(data.draw(st.lists(st.sampled_from([50.0, 100.0, 1000.0]), min_size=k, max_size=k)))
    rate = np.array([[n**p for n in (1, 2, 3)] for p in power])
    now = demand(rate, [room], gpus=[1, 2, 3], left=whole)
    chosen = Policy.build("slaq", every_s=EVERY_S).decide(now).chosen

    def lowered(sizes):
        return sum(fall(0.0, whole[j], rate[j, c]) for j, c in enumerate(sizes) if c >= 0)

    served = min(k, room)  # nobody starves where there is room
    every = (sizes for sizes in itertools.product((-1, 0, 1, 2), repeat=k) if sum(c >= 0 for c in sizes) == served)
    best = max(lowered(sizes) for sizes in every if sum(c + 1 for c in sizes) <= room)
    assert (chosen >= 0).sum() == served
    assert sum(c + 1 for c in chosen.tolist()) <= room
    assert lowered(chosen.tolist()) == pytest.approx(best)


def test_a_job_that_has_just_begun_comes_before_one_that_is_nearly_done(demand):
    """The same that is left of both, and nothing of the second has been done."""
    now = demand([[1.0], [1.0]], [1], left=[100.0, 0.0])
    decider = Policy.build("slaq", every_s=EVERY_S).start()
    decider.decide(replace(now, left=np.array([1000.0, 100.0])))
    later = replace(now, left=np.array([100.0, 100.0]))
    assert decider.decide(later).chosen.tolist() == [-1, 0]


def test_losses_fall_earlier_than_in_order_of_submission_and_all_jobs_end():
    jobs = Jobs.simple(np.zeros(6), np.full(6, 2), np.array([900.0, 100.0, 100.0, 100.0, 100.0, 100.0]))
    jobs = replace(jobs, iterations=np.full(6, 100.0), step=jobs.duration / 100)
    cluster = Cluster.parse("4")
    ours, first = (simulate(jobs, cluster, Policy.build(name)).jct for name in ("slaq", "fifo"))
    assert np.isfinite(ours).all()
    assert ours[1:].mean() < first[1:].mean()

"""Configurations by a knapsack."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.scaling.smd import knapsack


@given(st.data())
def test_no_other_choice_is_worth_more(data):
    """Against all choices of up to four jobs among three ways, with ties, impossible ways, and no room at all."""
    k, capacity = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 9))
    gpus = np.array(data.draw(st.lists(st.integers(1, 5), min_size=3, max_size=3)))
    worths = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0, 1.7])
    utility = np.array([[data.draw(worths) for _ in gpus] for _ in range(k)]).reshape(k, 3)
    chosen = knapsack(utility, gpus, capacity)

    def worth(ways):
        return sum(utility[job, way] for job, way in enumerate(ways) if way >= 0)

    def need(ways):
        return sum(gpus[way] for way in ways if way >= 0)

    assert need(chosen) <= capacity
    best = max((worth(w) for w in itertools.product((-1, 0, 1, 2), repeat=k) if need(w) <= capacity), default=0.0)
    assert worth(chosen) == pytest.approx(best)


def test_a_short_job_is_worth_more_than_a_long_one_of_the_same_wait(demand):
    """Of one accelerator; both have waited 100 s, one needs 10 s more and the other 100."""
    now = demand([[1.0], [1.0]], [1], left=[100.0, 10.0], submit=[-100.0, -100.0])
    assert Policy.build("smd").decide(now).chosen.tolist() == [-1, 0]


def test_accelerators_go_where_they_shorten_most(demand):
    """Two jobs of 100 s on three accelerators; one scales, the other does not."""
    now = demand([[1.0, 1.9], [1.0, 1.0]], [3])
    assert Policy.build("smd").decide(now).chosen.tolist() == [1, 0]


def test_each_type_serves_those_whom_it_suits(demand):
    """Four slow accelerators and one fast one for two jobs that run on either, and one that runs on slow ones."""
    now = demand([[1.0, 4.0], [1.0, 4.0], [1.0, 0.0]], [2, 1], gpus=[1, 1], types=[0, 1])
    chosen = Policy.build("smd").decide(now).chosen
    assert (chosen >= 0).all()
    assert chosen[2] == 0
    assert sorted(chosen[:2].tolist()) == [0, 1]


def test_of_several_types_no_other_choice_is_worth_more(demand):
    rng = np.random.default_rng(0)
    for _ in range(20):
        rate, left = rng.uniform(0, 2, (3, 3)) * (rng.random((3, 3)) > 0.2) + 1e-3, rng.uniform(1, 50, 3)
        size, gpus = rng.integers(1, 4, 2), rng.integers(1, 3, 3)
        now = demand(rate, size, gpus=gpus, types=[0, 1, 1], left=left)
        chosen = Policy.build("smd").decide(now).chosen

        def worth(ways, rate=rate, left=left, size=size, gpus=gpus):
            held = [sum(gpus[w] for w in ways if w >= 0 and (w > 0) == kind) for kind in (False, True)]
            return sum(rate[j, w] / left[j] for j, w in enumerate(ways) if w >= 0) if (held <= size).all() else -1.0

        best = max(map(worth, itertools.product((-1, 0, 1, 2), repeat=3)))
        assert worth(chosen) == pytest.approx(best, rel=1e-6)

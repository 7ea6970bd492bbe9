"""Every ordering policy against a simulator in exact fractions; `python tests/simulator/reference.py` counts longer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.reference import Reference, difference, draw, policies

POLICIES = policies()


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60)
@given(seed=st.integers(0, 10**9))
def test_starts_and_ends_are_those_of_exact_arithmetic(name, seed):
    assert difference(seed, POLICIES[name]) <= 1e-6


def test_the_draws_have_ties_unequal_nodes_and_jobs_as_large_as_the_cluster():
    drawn = [draw(seed)[:2] for seed in range(200)]
    assert np.mean([len(np.unique(jobs.submit)) < len(jobs.id) for jobs, _ in drawn]) > 0.5
    assert np.mean([len(np.unique(cluster.size)) > 1 for _, cluster in drawn]) > 0.5
    assert np.mean([jobs.gpus.max() == cluster.by_type.max() for jobs, cluster in drawn]) > 0.5


def test_the_reference_itself_ends_as_can_be_worked_out_by_hand():
    """Two nodes of four: 3 + 3 fill them, and 2 more find no place until the shorter has ended."""
    jobs, cluster, _, _ = draw(0)
    jobs = type(jobs).simple(np.zeros(3), np.array([3, 3, 2]), np.array([100.0, 10.0, 10.0]))
    nodes = type(cluster).parse("2x4")
    started, finished = Reference(jobs, nodes, POLICIES["fifo"], jobs.duration, np.ones((3, 1))).run()
    assert (started, finished) == ([0, 0, 10], [100, 10, 20])

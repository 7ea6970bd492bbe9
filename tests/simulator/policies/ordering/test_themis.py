"""Finish-time fairness on one type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.ordering.themis import fairest_parts
from mfcp.simulator.simulation import simulate


@given(seed=st.integers(0, 10_000), k=st.integers(1, 8), capacity=st.integers(4, 16))
@settings(max_examples=30)
def test_the_largest_ratio_is_that_of_a_conic_solver(seed, k, capacity):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    waited, left = rng.uniform(0, 50, k), rng.uniform(1, 90, k)
    alone, gpus = left * rng.uniform(1, 4, k), rng.integers(1, 5, k)
    part = fairest_parts(waited, left, alone, gpus, capacity)
    assert gpus @ part <= capacity * (1 + 1e-9)
    assert (part > 0).all()
    assert (part <= 1).all()
    x = cp.Variable(k)
    ratio = cp.multiply(1 / alone, waited + cp.multiply(left, cp.inv_pos(x)))
    least = cp.Problem(cp.Minimize(cp.max(ratio)), [x <= 1, gpus @ x <= capacity]).solve(solver="CLARABEL")
    assert ((waited + left / part) / alone).max() == pytest.approx(least, rel=1e-5)


def test_parts_that_the_ratio_leaves_free_lie_between_their_bounds():
    part = fairest_parts(np.array([100.0, 0.0]), np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([1, 1]), 4)
    assert part[0] == 1.0
    assert 1 / 101 < part[1] < 1.0


def test_who_had_least_of_their_part_goes_first(ends):
    assert ends("themis", [(0, 1, 10), (1, 1, 10)]) == pytest.approx([20, 11])


def test_a_job_that_fails_again_and_again_keeps_its_place():
    jobs = Jobs.simple(np.array([0.0, 1.0]), np.ones(2), np.array([50.0, 60.0]), success=np.array([0.1, 1.0]))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("themis"), retries=30, seed=1)
    assert np.isfinite(outcome.finished).all()
    assert outcome.lost[0] > 100.0

"""Goodput."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.scaling.goodput import goodput_rate


def test_the_mean_of_speed_ups_is_the_largest_of_all_sizes(demand):
    rng = np.random.default_rng(1)
    for _ in range(10):
        seen = demand(np.cumsum(rng.uniform(0.3, 1, (2, 3)), axis=1), [4])
        fair = seen.rate[:, 1]  # two of four accelerators each
        chosen = Policy.build("goodput").decide(seen).chosen
        found = sum(fair[i] / seen.rate[i, c] for i, c in enumerate(chosen))
        options = [
            fair[0] / seen.rate[0, a] + fair[1] / seen.rate[1, b]
            for a in range(3) for b in range(3) if seen.gpus[a] + seen.gpus[b] <= 4
        ]  # fmt: skip
        assert found <= min(options) * 1.25  # greedy: near the best


def test_a_change_that_is_not_worth_its_restart_is_not_made(demand):
    rate = [[1.0, 1.02]]
    running = demand(rate, [2], chosen=[0], executed=[5.0], submit=[-10.0])
    assert Policy.build("goodput", restart_s=30.0).decide(running).chosen.tolist() == [0]
    assert Policy.build("goodput", restart_s=0.0).decide(running).chosen.tolist() == [1]


def test_jobs_grow_less_where_larger_batches_are_worth_less():
    jobs, cluster = Jobs.simple(np.zeros(1), np.array([2]), np.array([100.0])), Cluster.parse("8")
    plain, noisy = (Policy.build("goodput", noise=noise).ways(jobs, cluster, np.ones((1, 1))) for noise in (np.inf, 1))
    assert noisy.gpus.tolist() == [1, 2, 4, 8]
    assert noisy.rate[0] / plain.rate[0] == pytest.approx([1, 1, 2 / 3, 2 / 5])
    assert (np.argmax(plain.rate[0]), np.argmax(noisy.rate[0])) == (3, 3)
    steps = np.diff(noisy.rate[0])
    assert (steps > 0).all()
    assert (np.diff(steps) < 0).all()


def test_efficiency_falls_with_the_batch_beyond_the_base():
    rate = goodput_rate(np.array([100.0, 180.0]), np.array([32.0, 64.0]), noise=32.0, base=32.0)
    assert rate == pytest.approx([100.0, 180 * 64 / 96])

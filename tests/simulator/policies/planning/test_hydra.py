"""Queues of devices."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.planning.hydra import best_queues, cost_of


def least(need, ready, due, penalty):
    """By every order of jobs and every device of each."""
    jobs, devices = need.shape
    best = np.inf
    for order in permutations(range(jobs)):
        for places in product(range(devices), repeat=jobs):
            queues = [[j for j, place in zip(order, places, strict=True) if place == d] for d in range(devices)]
            best = min(best, sum(cost_of(q, d, need, ready, due, penalty) for d, q in enumerate(queues)))
    return best


@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 4), penalty=st.sampled_from([0.0, 5.0]))
@settings(max_examples=25)
def test_the_search_finds_the_least_and_the_swaps_come_near(seed, jobs, penalty):
    rng = np.random.default_rng(seed)
    need, ready = rng.uniform(1, 20, (jobs, 2)), rng.uniform(0, 10, 2)
    due = rng.uniform(5, 60, jobs)
    true = least(need, ready, due, penalty)
    for exact, slack in [(4, 1 + 1e-9), (0, 1.6)]:
        queues = best_queues(need, ready, due, penalty, exact)
        assert sorted(job for queue in queues for job in queue) == list(range(jobs))
        assert sum(cost_of(q, d, need, ready, due, penalty) for d, q in enumerate(queues)) <= true * slack


def test_an_urgent_job_goes_before_a_short_one_if_lateness_costs(demand):
    seen = demand([[0.5], [1.0]], [1], deadline=[210.0, 1000.0])
    assert Policy.build("hydra", penalty=10.0).decide(seen).chosen.tolist() == [0, -1]
    assert Policy.build("hydra", penalty=0.0).decide(seen).chosen.tolist() == [-1, 0]


def test_tardiness_falls_against_the_order_of_submission(ends):
    rng = np.random.default_rng(3)
    rows = [(5.0 * i, 1, float(d), 5.0 * i + 2 * d) for i, d in enumerate(rng.uniform(5, 60, 20))]
    due = np.array(rows)[:, 3]
    late = {name: np.maximum(np.array(ends(name, rows, gpus=3)) - due, 0).sum() for name in ("fifo", "hydra")}
    assert late["hydra"] < late["fifo"]
    assert late["fifo"] == pytest.approx(np.maximum(np.array(ends("fifo", rows, gpus=3)) - due, 0).sum())

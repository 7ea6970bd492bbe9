"""Accelerators and frequencies."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import simulate


def test_no_budget_is_exceeded_and_a_larger_one_is_faster(demand):
    rng = np.random.default_rng(0)
    jobs, cluster = Jobs.simple(np.zeros(12), np.ones(12), rng.uniform(50, 400, 12)), Cluster.parse("16")
    ways = Configurations.elastic(jobs, cluster).with_frequencies(np.array([0.6, 0.8, 1.0]), 60.0, 300.0)
    found = []
    for budget in (1500.0, 3000.0, 6000.0):
        outcome = simulate(jobs, cluster, Policy.build("powerflow", budget_w=budget), configurations=ways)
        assert outcome.joules.sum() <= budget * np.nanmax(outcome.finished) * (1 + 1e-9)
        found.append(outcome.jct.mean())
    assert found == sorted(found, reverse=True)


def test_the_same_energy_goes_further_at_a_lower_frequency(demand):
    seen = demand([[0.6, 1.0]] * 2, [2], gpus=[1, 1], watts=np.array([100.0, 300.0]))
    assert Policy.build("powerflow", budget_w=250.0).decide(seen).chosen.tolist() == [0, 0]
    assert Policy.build("powerflow", budget_w=700.0).decide(seen).chosen.tolist() == [1, 1]
    assert pytest.approx(0.6 * 2) == seen.rate[:, 0].sum()

"""Accelerators and frequencies."""

import numpy as np
import pytest

from mfcp.errors import SettingsError
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


def test_watts_follow_from_those_at_the_highest_clock():
    jobs, cluster = Jobs.simple(np.zeros(1), np.ones(1), np.array([100.0])), Cluster.parse("1")
    watts = {"clocks": (0.5, 1.0), "idle_w": 60.0, "busy_w": 300.0}
    slow = simulate(jobs, cluster, Policy.build("powerflow", budget_w=100.0, **watts))
    assert (slow.finished[0], slow.joules[0]) == pytest.approx((200.0, 200 * (60 + 240 / 8)))
    fast = simulate(jobs, cluster, Policy.build("powerflow", **watts))
    assert (fast.finished[0], fast.joules[0]) == pytest.approx((100.0, 100 * 300.0))


def test_a_budget_without_watts_is_an_error():
    jobs = Jobs.simple(np.zeros(1), np.ones(1), np.array([100.0]))
    with pytest.raises(SettingsError, match="budget_w needs watts; set busy_w"):
        simulate(jobs, Cluster.parse("1"), Policy.build("powerflow", budget_w=100.0))


def test_the_same_energy_goes_further_at_a_lower_frequency(demand):
    seen = demand([[0.6, 1.0]] * 2, [2], gpus=[1, 1], watts=np.array([100.0, 300.0]))
    assert Policy.build("powerflow", budget_w=250.0).decide(seen).chosen.tolist() == [0, 0]
    assert Policy.build("powerflow", budget_w=700.0).decide(seen).chosen.tolist() == [1, 1]
    assert pytest.approx(0.6 * 2) == seen.rate[:, 0].sum()

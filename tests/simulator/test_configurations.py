"""The ways in which jobs can run."""

from dataclasses import replace

import numpy as np
import pytest

from mfcp.errors import DataError, SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

JOBS = Jobs.simple(np.zeros(2), np.array([1, 3]), np.array([10.0, 20.0]))


def test_rigid_jobs_run_only_as_they_ask():
    ways = Configurations.rigid(JOBS, Cluster.parse("a:4,b:4"), np.array([[1.0, 2.0], [1.0, 0.0]]))
    assert list(zip(ways.type, ways.gpus, strict=True)) == [(0, 1), (0, 3), (1, 1), (1, 3)]
    assert ways.rate.tolist() == [[0.1, 0, 0.2, 0], [0, 0.05, 0, 0]]


def test_elastic_jobs_take_powers_of_two_and_their_own_size():
    ways = Configurations.elastic(JOBS, Cluster.parse("8"), exponent=1.0)
    assert ways.gpus.tolist() == [1, 2, 3, 4, 8]
    assert ways.rate[0] == pytest.approx([0.1, 0.2, 0, 0.4, 0.8])
    assert ways.rate[1] == pytest.approx([0.05 / 3, 0.1 / 3, 0.05, 0.2 / 3, 0.4 / 3])


def test_power_above_idle_follows_the_cube_of_the_frequency():
    ways = Configurations.elastic(JOBS, Cluster.parse("1")).with_frequencies(np.array([0.5, 1.0]), 50.0, 250.0)
    assert ways.gpus[:2].tolist() == [1, 1]
    assert ways.watts[:2].tolist() == [75.0, 250.0]
    assert ways.rate[0, :2].tolist() == [0.05, 0.1]


def test_a_job_that_runs_nowhere_is_named():
    with pytest.raises(DataError, match="job 1 has no configuration"):
        Configurations(np.array([1]), np.array([0]), np.array([[1.0], [0.0]]), np.zeros(1))


def test_elastic_jobs_use_every_type_of_accelerator():
    jobs, cluster = Jobs.simple(np.zeros(2), np.ones(2), np.full(2, 100.0)), Cluster.parse("v100:4,k80:64")
    ways = Configurations.elastic(jobs, cluster, np.array([[1.0, 0.5], [1.0, 0.0]]))
    assert [ways.gpus[ways.type == kind].max() for kind in (0, 1)] == [4, 64]
    alone = (ways.gpus == 1).nonzero()[0]
    assert ways.rate[:, alone].tolist() == [[0.01, 0.005], [0.01, 0.0]]
    import_policies()
    many = Jobs.simple(np.zeros(8), np.ones(8), np.full(8, 100.0))
    log = simulate(many, cluster, Policy.build("optimus")).log
    assert set(log.loc[log["event"] == "started", "node"]) == {0, 1}
    with pytest.raises(SettingsError, match="plans on one type of accelerator, and the cluster has v100, k80"):
        simulate(replace(jobs, deadline=np.full(2, 1e4)), cluster, Policy.build("elastic_flow"))

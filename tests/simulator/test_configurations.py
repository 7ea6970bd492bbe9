"""The ways in which jobs can run."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs

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

"""Numbers of a run that can be worked out by hand."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def test_metrics():
    deadline = np.array([20.0, 12.0, np.inf])
    jobs = Jobs.simple(np.array([0.0, 0, 5]), np.array([2, 1, 1]), np.array([10.0, 5, 5]), deadline=deadline)
    found = simulate(jobs, Cluster.parse("2"), Policy.build("fifo")).metrics()
    assert found["mean_jct_s"] == pytest.approx((10 + 15 + 10) / 3)
    assert found["mean_wait_s"] == pytest.approx((0 + 10 + 5) / 3)
    assert found["makespan_s"] == 15
    assert found["utilization"] == 1.0
    assert found["deadlines_met"] == 0.5
    assert found["deadlines_met_by_service"] == pytest.approx(20 / 25)
    assert found["preemptions"] == found["lost_gpu_s"] == found["given_up"] == 0


def test_the_log_has_a_row_per_happening():
    jobs = Jobs.simple(np.array([0.0, 1]), np.array([1, 1]), np.array([10.0, 2]))
    log = simulate(jobs, Cluster.parse("1"), Policy.build("srtf")).log
    assert [(row.time_s, row.job, row.event) for row in log.itertuples()] == [
        (0, 0, "submitted"), (0, 0, "started"), (1, 1, "submitted"), (1, 0, "stopped"), (1, 1, "started"),
        (3, 1, "finished"), (3, 0, "started"), (12, 0, "finished"),
    ]  # fmt: skip

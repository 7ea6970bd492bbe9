"""What a log tells of stretches and queues."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import stretches, waiting
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def test_an_event_that_is_unknown_is_no_silence():
    jobs = Jobs.simple(np.array([0.0, 1]), np.array([1, 1]), np.array([10.0, 2]))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("srtf"))
    log = outcome.log.assign(event="exploded")
    with pytest.raises(ValueError, match="'exploded' is unknown; known are submitted, started"):
        stretches(log)


def test_stretches_and_queue_of_a_job_that_is_taken_off():
    jobs = Jobs.simple(np.array([0.0, 1]), np.array([1, 1]), np.array([10.0, 2]))
    log = simulate(jobs, Cluster.parse("1"), Policy.build("srtf")).log
    assert stretches(log)[["job", "start_s", "end_s", "gpus"]].to_numpy().tolist() == [
        [0, 0, 1, 1], [0, 3, 12, 1], [1, 1, 3, 1],
    ]  # fmt: skip
    times, queue = waiting(log)
    assert queue[times <= 1][-1] == 1
    assert queue[-1] == 0

"""Rounds of a gang on fewer devices."""

import numpy as np

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.planning.hare import in_rounds
from mfcp.simulator.simulation import simulate


def test_a_round_of_four_takes_two_steps_on_two_or_three_devices():
    jobs = Jobs.simple(np.zeros(1), np.array([4]), np.array([10.0]))
    ways = in_rounds(jobs, Cluster.parse("5"), np.ones((1, 1)))
    assert (1 / ways.rate[0][ways.rate[0] > 0]).tolist() == [40.0, 20.0, 10.0]
    assert ways.gpus[ways.rate[0] > 0].tolist() == [1, 2, 4]


def test_rounds_are_as_fast_as_their_type():
    jobs, cluster = Jobs.simple(np.zeros(1), np.array([2]), np.array([10.0])), Cluster.parse("a:2,b:1")
    ways = in_rounds(jobs, cluster, np.array([[1.0, 0.5]]))
    assert list(zip(ways.type.tolist(), ways.gpus.tolist(), (1 / ways.rate[0]).tolist(), strict=True)) == [
        (0, 1, 20.0), (0, 2, 10.0), (1, 1, 40.0)
    ]  # fmt: skip


def test_a_gang_that_does_not_fit_runs_on_what_is_left():
    jobs = Jobs.simple(np.array([0.0, 1.0]), np.array([2, 4]), np.array([10.0, 10.0]))
    outcome = simulate(jobs, Cluster.parse("4"), Policy.build("hare"))
    assert outcome.finished.tolist() == [10.0, 15.5]  # two devices for 9 s give 4.5 of its 10, four the rest
    rigid = simulate(jobs, Cluster.parse("4"), Policy.build("fifo"))
    assert rigid.finished.tolist() == [10.0, 20.0]

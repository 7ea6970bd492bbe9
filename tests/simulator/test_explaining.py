"""Why a job waits, in a case that can be worked out by hand."""

import numpy as np
import pytest

from mfcp.simulator.beliefs import RelativeError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.explaining import explain_job, stretches
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def run(seed=0):
    jobs = Jobs.simple(np.array([0.0, 1, 2]), np.array([2, 1, 2]), np.array([10.0, 20, 5]))
    belief = RelativeError(mre=0.5)
    return simulate(jobs, Cluster.parse("3"), Policy.build("sjf"), belief=belief, seed=seed)


def test_who_ran_instead_and_what_was_free():
    told = explain_job(run(), 2, run, samples=5)
    assert (told.submit, told.started, told.finished, told.stops) == (2, 10, 15, 0)
    assert told.instead == (("0", 16.0), ("1", 8.0))
    assert told.free == pytest.approx(0.0)
    assert told.interval() == (10, 10, 10)
    assert np.isnan(explain_job(run(), 0, run, samples=1).free)


def test_every_stretch_has_a_start_and_an_end():
    jobs = Jobs.simple(np.array([0.0, 1]), np.array([1, 1]), np.array([10.0, 2]))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("srtf"))
    assert stretches(outcome).tolist() == [[0, 0, 1, 1], [0, 3, 12, 1], [1, 1, 3, 1]]

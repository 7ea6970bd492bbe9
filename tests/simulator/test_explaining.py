"""Why a job waits, in cases that can be worked out by hand."""

import numpy as np

from mfcp.simulator.beliefs import NoisyDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.explaining import explain_job
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def made(rows, **columns):
    return Jobs.simple(*np.array(rows, float).T, **columns)


def run(seed=0):
    jobs = made([(0, 2, 10), (1, 1, 20), (2, 2, 5)])
    return simulate(jobs, Cluster.parse("3"), Policy.build("sjf"), belief=NoisyDurations(mre=0.5), seed=seed)


def test_who_ran_instead():
    told = explain_job(run(), 2, run, samples=5)
    assert (told.submit, told.started, told.finished, told.fate) == (2, 10, 15, "finished")
    assert told.instead == (("0", 16.0), ("1", 8.0))
    assert (told.roomy_s, told.first, told.taken_off) == (0.0, (), ())
    assert told.interval() == (10, 10, 10)


def test_who_is_first_in_line_while_there_is_room():
    """Three of four are busy until 10; the second asks for 4, and blocks the third, which asks for the free one."""

    def fifo(seed=0):
        return simulate(made([(0, 3, 10), (1, 4, 5), (2, 1, 1)]), Cluster.parse("4"), Policy.build("fifo"), seed=seed)

    told = explain_job(fifo(), 2, fifo, samples=1)
    assert told.started == 15
    assert told.roomy_s == 8  # from 2 to 10
    assert told.first == (("1", 4, 8.0),)


def test_who_took_its_place():
    def srtf(seed=0):
        return simulate(made([(0, 1, 10), (1, 1, 2)]), Cluster.parse("1"), Policy.build("srtf"), seed=seed)

    assert explain_job(srtf(), 0, srtf, samples=1).taken_off == ((1.0, ("1",)),)


def test_a_job_that_never_starts():
    def declining(seed=0):
        jobs = made([(0, 1, 100), (1, 1, 100)], deadline=np.array([100.0, 101.0]))
        return simulate(jobs, Cluster.parse("1"), Policy.build("elastic_flow"), seed=seed)

    told = explain_job(declining(), 1, declining, samples=2)
    assert told.fate == "declined"
    assert np.isnan(told.started)
    assert np.isnan(told.interval()).all()

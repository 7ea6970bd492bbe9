"""Runs on the clock of events: charges, failures, nodes and types."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import PRESETS, preset
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def made(submit, gpus, duration, **columns):
    return Jobs.simple(*(np.array(values, float) for values in (submit, gpus, duration)), **columns)


@pytest.mark.parametrize(
    ("charge", "ends"),
    # The second job stops the first at 1 and runs until 4; the first has 9 s to go, and pays 2 s where it must.
    [("resumes", [4 + 2 + 9, 4]), ("starts", [4 + 2 + 2 + 8 + 1, 1 + 2 + 3]), ("every event", [15, 4])],
)
def test_overheads_are_charged_as_the_semantics_say(charge, ends):
    jobs = made([0, 1], [1, 1], [10, 3], overhead=np.array([2.0, 2.0]))
    semantics = preset("plain", charge=charge)
    if charge == "every event":  # the stretch from 0 to 1 is lost to the overhead; planned ends contain none
        semantics, ends = PRESETS["muri"], [4 + 10, 4]
    if charge == "starts":  # the first second is overhead, and so is the next
        ends = [1 + 2 + 3 + 2 + 10, 1 + 2 + 3]
    assert simulate(jobs, Cluster.parse("1"), Policy.build("srtf"), semantics=semantics).finished.tolist() == ends


def test_a_failed_attempt_starts_again_and_is_given_up_in_the_end():
    jobs = made([0] * 200, [1] * 200, [10] * 200, success=np.full(200, 0.5))
    outcome = simulate(jobs, Cluster.parse("200"), Policy.build("fifo"), retries=2)
    attempts = outcome.log[outcome.log["event"] == "started"].groupby("job").size()
    assert attempts.max() == 3
    assert 5 < np.isnan(outcome.finished).sum() < 50  # an eighth
    assert np.allclose(outcome.executed - np.where(np.isnan(outcome.finished), 0, 10), outcome.lost)
    assert outcome.metrics()["given_up"] == np.isnan(outcome.finished).sum()


def test_jobs_run_at_the_speed_of_their_type_and_only_where_they_can():
    jobs = made([0, 0], [1, 1], [10, 10])
    speed = np.array([[1.0, 4.0], [1.0, 0.0]])
    outcome = simulate(jobs, Cluster.parse("slow:1,fast:1"), Policy.build("fifo"), speed=speed, placement="fastest")
    assert outcome.finished.tolist() == [2.5, 10]


def test_a_long_log_grows():
    n = 300
    jobs = made(np.arange(n), np.ones(n), np.full(n, 3.0) - np.arange(n) * 0.005)
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("las", limits=tuple(np.arange(1, 60) * 0.05)))
    assert len(outcome.log) > 8 * n
    assert not np.isnan(outcome.finished).any()

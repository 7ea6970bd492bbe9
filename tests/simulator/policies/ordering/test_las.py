"""Least attained service."""

import numpy as np
import pytest

from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import stretches
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def test_a_job_that_reaches_a_limit_goes_behind_the_others(ends):
    assert ends("las", [(0, 1, 10), (1, 1, 3)], limits=(4.0,)) == [13, 7]


def test_service_counts_accelerators(ends):
    assert ends("las", [(0, 2, 10), (1, 2, 3)], gpus=2, limits=(8.0,)) == [13, 7]


def test_a_job_that_has_waited_long_enough_starts_over_in_the_first_level(ends):
    """It leaves at 4, the other runs from then; after half as long as it ran, at 6, it is before the other again."""
    jobs = [(0, 1, 10), (1, 1, 3)]
    assert ends("las", jobs, limits=(4.0,)) == [13, 7]
    assert ends("las", jobs, limits=(4.0,), promote=0.5) == [13, 11]


def test_a_promotion_is_told_and_counts_from_the_last_one():
    jobs = Jobs.simple(np.zeros(2), np.ones(2, np.int64), np.array([8.0, 8.0]))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("las", limits=(2.0,), promote=1.0))
    log = outcome.log[outcome.log["event"] == "promoted"]
    # 0 runs to 2, 1 to 4 and in the second level 0 is first again, but then has waited 2 of 2 seconds: to 6; and so on
    assert log[["time_s", "job"]].to_numpy().tolist() == [[4, 0], [6, 1], [8, 0], [10, 1], [12, 0], [14, 1]]
    assert outcome.finished.tolist() == [14, 16]
    held = stretches(outcome.log)
    assert (held["end_s"] - held["start_s"]).sum() == 16


def test_a_first_level_that_a_start_takes_up_is_refused_where_jobs_are_promoted():
    """Two such jobs would take turns for ever and get nowhere."""
    jobs = Jobs.simple(np.zeros(2), np.full(2, 2), np.full(2, 90.0), overhead=np.full(2, 5.0))
    policy = Policy.build("las", limits=(10.0,), promote=0.01)
    with pytest.raises(SettingsError, match=r"job 0 pays 10 accelerator-seconds at a start, .* raise limits\[0\]"):
        simulate(jobs, Cluster.parse("2"), policy)
    assert simulate(jobs, Cluster.parse("2"), Policy.build("las", limits=(10.0,))).finished.max() == 190

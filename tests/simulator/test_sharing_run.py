"""Runs on the clock of rounds, by hand."""

import numpy as np
import pytest

from mfcp.simulator.beliefs import RelativeError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import PRESETS, Rounds
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def run(rows, cluster="1", policy="max_min", **options):
    submit, gpus, duration = np.array(rows, float).T
    jobs = Jobs(np.arange(len(submit)).astype(str), submit, gpus.astype(int), duration, np.ones(len(submit)))
    return simulate(jobs, Cluster.parse(cluster), Policy.build(policy), **options)


def test_two_jobs_take_turns():
    """720 steps each, 360 a round: 0, 1, 0, 1 or 0, 1, 1, 0."""
    outcome = run([(0, 1, 720), (0, 1, 720)])
    assert sorted(outcome.finished.tolist()) == [1080, 1440]
    assert outcome.work["rounds"] == 4


def test_a_job_that_comes_waits_for_the_next_reset():
    outcome = run([(5, 2, 7200), (400, 1, 360)], "3")
    assert outcome.started[1] == 5 + 6 * 360  # the first round that starts 1,920 s after the reset at 5
    assert outcome.finished.tolist() == [7205, 2525]


def test_a_round_ends_with_its_last_job():
    outcome = run([(0, 1, 100), (0, 1, 350), (0, 1, 300), (0, 1, 10)], "3", semantics=Rounds(reset_s=0))
    assert outcome.started[3] == 350


def test_a_job_that_did_not_run_before_loses_part_of_a_whole_round():
    outcome = run([(0, 1, 240)], semantics=PRESETS["shockwave"])
    assert outcome.finished.tolist() == [120 + 120 + 20 * 120 / 120]  # 100 steps, 120 steps, 20 steps


def test_beliefs_change_what_uses_what_is_left():
    rows = [(10 * k, 1, 3600 * (k % 4 + 1)) for k in range(24)]
    truth, wrong = (run(rows, "2", "allox", belief=RelativeError(mre=mre)) for mre in (0.0, 0.8))
    assert truth.jct.mean() < wrong.jct.mean()


def test_a_long_log_grows():
    outcome = run([(0, 1, 20_000)] * 4, "1")
    assert len(outcome.log) > 16 * 4 + 64
    assert outcome.log["time_s"].is_monotonic_increasing


@pytest.mark.parametrize("policy", ["isolated", "finish_time", "allox", "in_turn"])
def test_alone_a_job_takes_its_time(policy):
    assert run([(5, 1, 1000)], policy=policy).finished.tolist() == [1005]

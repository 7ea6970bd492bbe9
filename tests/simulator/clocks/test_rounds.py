"""Runs on the clock of rounds, by hand."""

from typing import ClassVar

import numpy as np
import pytest

from mfcp.errors import SettingsError, SolverError
from mfcp.simulator.beliefs import NoisyDurations
from mfcp.simulator.clocks.rounds import RoundsRun
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy, Shares
from mfcp.simulator.semantics import PRESETS, RoundTerms
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
    outcome = run([(0, 1, 100), (0, 1, 350), (0, 1, 300), (0, 1, 10)], "3", semantics=RoundTerms(reset_s=0))
    assert outcome.started[3] == 350


def test_a_job_that_did_not_run_before_loses_part_of_a_whole_round():
    outcome = run([(0, 1, 240), (0, 1, 240)], semantics=PRESETS["shockwave"])
    # 120 steps of one job, which nobody charges; 100 of the other, then 120; 100 of the first and its last 20; 20.
    assert outcome.log.loc[outcome.log["event"] == "started", "time_s"].tolist() == [0, 120, 360, 500]
    assert sorted(outcome.finished.tolist()) == [480 + 20, 500 + 20]
    alone = run([(0, 1, 240)], semantics=PRESETS["shockwave"])
    assert alone.finished.tolist() == [240]


def test_beliefs_change_what_uses_what_is_left():
    rows = [(10 * k, 1, 3600 * (k % 4 + 1)) for k in range(24)]
    truth, wrong = (run(rows, "2", "allox", belief=NoisyDurations(mre=mre)) for mre in (0.0, 0.8))
    assert truth.jct.mean() < wrong.jct.mean()


def test_a_long_log_grows():
    outcome = run([(0, 1, 20_000)] * 4, "1")
    assert len(outcome.log) > 16 * 4 + 64
    assert outcome.log["time_s"].is_monotonic_increasing


@pytest.mark.parametrize("policy", ["isolated", "finish_time", "allox", "in_turn"])
def test_alone_a_job_takes_its_time(policy):
    assert run([(5, 1, 1000)], policy=policy).finished.tolist() == [1005]


def test_a_failed_attempt_starts_again_in_the_next_round():
    jobs = Jobs(np.array(["0"]), np.zeros(1), np.ones(1, int), np.full(1, 500.0), np.ones(1), success=np.full(1, 1e-9))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("max_min"), retries=2)
    assert outcome.log["event"].tolist().count("failed") == 2
    assert outcome.log["event"].tolist()[-1] == "given_up"
    assert outcome.lost[0] == pytest.approx(outcome.held[0])
    assert outcome.metrics()["given_up"] == 1


class Idle(Shares):
    """Gives nobody anything, or what is not known."""

    name: ClassVar[str] = ""
    strict: ClassVar[bool] = True
    share: float = 0.0

    def solve(self, moment):
        return np.full(moment.speed.shape, self.share)


def test_jobs_that_never_get_a_share_are_an_error_and_no_endless_loop():
    with pytest.raises(SolverError, match="never run"):
        simulate(Jobs.simple(np.zeros(1), np.ones(1), np.ones(1)), Cluster.parse("1"), Idle())
    with pytest.raises(SettingsError, match="what is not known"):
        simulate(Jobs.simple(np.zeros(1), np.ones(1), np.ones(1)), Cluster.parse("1"), Idle(share=np.nan))


def test_time_received_follows_shares():
    """Three quarters and one quarter, of one reset for all time."""
    jobs = Jobs(np.array(["0", "1"]), np.zeros(2), np.ones(2, int), np.full(2, 1e4), np.ones(2))

    class Split(Idle):
        name: ClassVar[str] = ""

        def solve(self, moment):
            return np.array([[0.75], [0.25]])[-len(moment.job) :]

    outcome = simulate(jobs, Cluster.parse("1"), Split(), semantics=RoundTerms(reset_s=1e9))
    assert 10_000 / 0.75 * 0.9 < outcome.finished[0] < 10_000 / 0.75 * 1.1


def test_a_run_may_end_with_a_job_before_the_last():
    jobs = Jobs(np.arange(3).astype(str), np.array([0.0, 0, 1e5]), np.ones(3, int), np.full(3, 720.0), np.ones(3))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("max_min"), last=0)
    assert np.isfinite(outcome.finished).tolist()[0]
    assert np.isnan(outcome.finished[2])


def test_a_deficit_is_what_was_promised_and_not_received():
    jobs = Jobs(np.array(["0", "1"]), np.zeros(2), np.ones(2, int), np.full(2, 1e4), np.ones(2))
    course = Course(jobs, Cluster.parse("1"), jobs.duration, np.empty((2, 0)))
    run = RoundsRun(course, Idle(share=0.5), RoundTerms(), np.ones((2, 1)), 0)
    run.arrive()
    run.reset()
    run.time[0, 0] += 1000.0
    course.now = 1000.0
    run.reset()
    assert run.deficit[:, 0].tolist() == [-500.0, 500.0]
    assert (run.time == 180.0).all()

"""Jobs on hosts, by hand and against what must hold."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import DataError
from mfcp.simulator.clocks.hosted import run_hosted
from mfcp.simulator.clocks.hosted_parts import HostedParts
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.luck import draw_failures
from mfcp.simulator.policies.hosting import Queueing, Resizing
from mfcp.simulator.policies.on_hosts.qore_dl import QoreDl
from mfcp.simulator.policies.on_hosts.sizing_all import HostedElasticFlow, HostedOptimus, HostedSlaq

SIZERS = [HostedOptimus, HostedSlaq, HostedElasticFlow]
CPU_ONLY = Cluster.parse("1")  # hosts are told by the parts


def case_of(submit, limit, *, deadline=1e6, needed=None, asked=1, peak=(1.0, 1.0), server=(0.0, 0.0), success=1.0):
    """Jobs on hosts without accelerators; an iteration takes a second at full CPU, and longer with less of it."""
    n = len(submit)
    peak, server = (np.column_stack([np.zeros(n), np.broadcast_to(np.array(x, float), (n, 2))]) for x in (peak, server))
    submit, limit = np.array(submit, float), np.array(limit, float)
    jobs = Jobs(
        np.arange(n).astype(str), submit, np.broadcast_to(asked, n).astype(int), limit if needed is None else
        np.array(needed, float), np.ones(n), deadline=submit + deadline, success=np.full(n, success),
    )  # fmt: skip

    def seconds(rows, sizes):
        return peak[rows, None, 1] / np.minimum(sizes[..., 1], 2 * peak[rows, None, 1])

    return jobs, HostedParts(np.empty((0, 3)), peak, server, seconds, seconds, limit)


def run(case, hosts, policy, seed=0, expected=None):
    """Outcome on hosts with so much CPU and memory."""
    jobs, parts = case
    hosts = np.array(hosts, float)
    parts = replace(parts, capacity=np.column_stack([np.zeros(len(hosts)), hosts]))
    expected = jobs.duration if expected is None else expected
    return run_hosted(
        Course(jobs, CPU_ONLY, expected, draw_failures(jobs.id, jobs.success, 3, seed)), policy, parts, seed
    )


class Plain(Queueing):
    """First in, first out; what users ask for."""


class Three(Resizing):
    """Three workers for the first job, one for the others."""

    def sizes(self, wish):
        return np.where(wish.row == 0, 3, 1)


PLAIN = Plain(spread="first")
SIZED = Plain(spread="first", sized=True)


def test_jobs_of_one_host_wait_for_each_other():
    case = case_of([0, 1, 2], [100, 50, 10])
    outcome = run(case, [[1, 1]], PLAIN)
    assert outcome.finished.tolist() == [100, 150, 160]
    assert run(case, [[1, 1]], Plain(order="srsf")).finished.tolist() == [100, 160, 110]
    assert outcome.taken.tolist() == [100, 50, 10]
    assert outcome.log["event"].tolist() == [
        "submitted", "started", "submitted", "submitted", "finished", "started", "finished", "started", "finished"
    ]  # fmt: skip


def test_workers_share_the_iterations_and_a_job_ends_when_it_has_converged():
    case = case_of([0], [100], needed=[60], asked=3)
    assert run(case, [[4, 4]], PLAIN).finished.tolist() == [20]
    assert run(case, [[2, 2]], PLAIN).finished.tolist() == [30]  # two fit


def test_the_configurator_gives_as_many_workers_as_the_deadline_needs():
    assert run(case_of([0], [100], deadline=30.0), [[8, 8]], SIZED).finished.tolist() == [25]  # four workers
    assert run(case_of([0], [100], deadline=np.inf, asked=2), [[8, 8]], SIZED).finished.tolist() == [50]  # its user's
    assert run(case_of([0], [100], deadline=1.0), [[8, 8]], Plain(sized=True, workers=(8, 8, 8))).finished == [12.5]


def test_users_hold_more_than_they_use():
    outcome = run(case_of([0], [100]), [[2, 2]], Plain(generous=1.5))
    assert outcome.taken[0] == pytest.approx(outcome.finished[0] * 0.75)


def test_a_job_comes_again_with_less_cpu():
    outcome = run(case_of([0], [100], peak=(1.0, 0.5)), [[0.8, 1.0]], SIZED)
    assert outcome.finished[0] == pytest.approx(100 / 0.85**2)


def test_a_job_that_never_fits_is_an_error():
    for policy in (PLAIN, SIZED, HostedOptimus()):
        with pytest.raises(DataError, match="job 1 fits on no host even alone"):
            run(case_of([0, 0], [1, 100], peak=[(1.0, 1.0), (9.0, 1.0)]), [[1, 1]], policy)


def test_the_adjuster_saves_a_job_that_would_be_late():
    case = case_of([0], [1000], deadline=900.0)
    late = run(case, [[4, 4]], Plain(tick_s=100.0))
    saved = run(case, [[4, 4]], Plain(tick_s=100.0, adjusts=True))
    assert late.finished[0] == 1000
    assert saved.finished[0] < 900
    assert saved.work["changes"] == (saved.log["event"] == "resized").sum() >= 1


def test_a_change_costs_what_the_job_says_or_else_what_the_policy_says():
    jobs, parts = case_of([0], [1000], deadline=900.0)
    one = Plain(tick_s=600.0, adjusts=True, change_s=10.0)  # one tick is before its end
    cheap = run((jobs, parts), [[4, 4]], one)
    dear = run((replace(jobs, overhead=np.array([30.0])), parts), [[4, 4]], one)
    assert cheap.work["changes"] == dear.work["changes"] == 1
    assert dear.finished[0] - cheap.finished[0] == pytest.approx(20.0)


def test_a_failed_attempt_starts_again_from_nothing():
    case = case_of(np.zeros(20), np.full(20, 50.0), success=0.5)
    outcome = run(case, [[3, 3]], QoreDl(), seed=1)
    assert (outcome.log["event"] == "failed").any()
    assert (outcome.log["event"] == "given_up").sum() == np.isnan(outcome.finished).sum()
    again = outcome.log[outcome.log["event"] == "failed"]["job"].unique()
    assert ((outcome.executed >= 50.0 - 1e-6) | ~np.isin(np.arange(20), again) | np.isnan(outcome.finished)).all()


def queues():
    return st.builds(
        Plain, order=st.sampled_from(["fifo", "edf", "srsf", "qore"]), sized=st.booleans(), adjusts=st.booleans(),
        servers=st.booleans(), spread=st.sampled_from(["least loaded", "first", "together"]),
    )  # fmt: skip


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000), policy=st.one_of(queues(), st.builds(QoreDl), *(st.builds(each) for each in SIZERS)),
    gpus=st.booleans(), success=st.sampled_from([1.0, 0.6]), dated=st.booleans(), tied=st.booleans(),
)  # fmt: skip
def test_nobody_is_lost_and_nobody_does_more_than_there_is(seed, policy, gpus, success, dated, tied):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    submit, limit = np.sort(rng.uniform(0, 2000, n)), rng.uniform(50, 2000, n)
    if tied:  # at few instants, and alike
        submit, limit = np.floor(submit / 700) * 700, np.full(n, limit[0])
    jobs, parts = case_of(
        submit, limit,
        deadline=np.where(rng.random(n) < (1.0 if dated else 0.5), rng.uniform(100, 4000, n), np.inf),
        asked=rng.integers(1, 5, n), peak=rng.uniform(0.5, 2, (n, 2)), server=rng.uniform(0.1, 0.5, (n, 2)),
        success=success,
    )  # fmt: skip
    parts.peak[:, 0] = gpus
    hosts = np.column_stack([rng.integers(2, 6, 3) * gpus, rng.uniform(4, 8, (3, 2))])
    parts = replace(parts, capacity=hosts)
    fails = draw_failures(jobs.id, jobs.success, 3, seed)
    first, again = (run_hosted(Course(jobs, CPU_ONLY, jobs.duration, fails), policy, parts, seed) for _ in "ab")
    done = ~np.isnan(first.finished)
    given_up = first.log["job"][first.log["event"] == "given_up"]
    assert sorted(np.flatnonzero(~done)) == sorted(given_up)
    assert (first.started >= jobs.submit - 1e-9).all()
    # The fastest that an iteration can be is half a second, by as many workers as fit.
    most = hosts[:, 1].sum() / (0.475 * parts.peak[:, 1])
    assert ((first.finished - first.started)[done] >= (jobs.iterations * 0.5 / most - 1e-6)[done]).all()
    span = first.log["time_s"].max() - jobs.submit.min()
    assert first.taken.sum() <= span * (1 + 1e-9)
    assert first.held.sum() <= span * hosts[:, 0].sum() * (1 + 1e-9)
    assert (first.held == 0).all() != gpus
    in_use = in_use_of(first.log)
    assert in_use.max() <= hosts[:, 0].sum()
    assert (in_use.to_numpy() >= 0).all()
    assert in_use.iloc[-1] == 0
    assert again.finished.tolist() == pytest.approx(first.finished.tolist(), nan_ok=True)


def in_use_of(log):
    """Accelerators in use after every instant: a job has what its last event says."""
    frame = log.assign(has=log["gpus"].where(log["event"].isin(["started", "resized"]), 0))
    frame["change"] = frame["has"] - frame.groupby("job")["has"].shift(fill_value=0)
    return frame.groupby("time_s")["change"].sum().cumsum()


def test_thresholds_decide_whether_large_jobs_come_first():
    # Two wait for the first: one that needs all cores and one that needs one; both are equally urgent.
    case = case_of([0, 1, 1], [10, 10, 10], deadline=100, peak=[(4, 4), (4, 4), (1, 1)])
    started = []
    for light in (-1.0, 1.0):  # never light, or always
        started.append(run(case, [[4, 4]], Plain(order="qore", thresholds=(light, 1.0, 1.0))).started.tolist())
    assert started == [[0, 20, 10], [0, 10, 20]]


def test_a_job_that_finds_no_room_to_grow_pays_nothing():
    # Each host has room for one worker of 1.5 cores: three are wanted at every event, two run.
    case = case_of([0, 10, 20, 30], [300, 1, 1, 1], peak=[(1.5, 1), (0.1, 0.1), (0.1, 0.1), (0.1, 0.1)])
    outcome = run(case, [[2, 2], [2, 2]], Three(spread="first", change_s=50.0, tick_s=1e6))
    assert outcome.finished[0] == 150
    assert outcome.work["changes"] == 0


def test_workers_are_bound_by_each_of_three_resources():
    """Two hosts of four accelerators; a job asks for four workers, and one of three resources lets two of them run."""
    for scarce in range(3):
        jobs, parts = case_of([0], [100], asked=4)
        parts.peak[:, 0] = 1.0
        hosts = np.full((1, 3), 8.0)
        hosts[0, scarce] = 2.0
        outcome = run_hosted(
            Course(jobs, CPU_ONLY, jobs.duration, np.empty((1, 0))), PLAIN, replace(parts, capacity=hosts)
        )
        assert outcome.finished.tolist() == [50]
        assert outcome.held.tolist() == [100]

"""Jobs on hosts, by hand and against what must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SolverError
from mfcp.simulator.qore.rivals import elastic_flow, optimus, slaq
from mfcp.simulator.qore.running import HostedJobs, HostedTerms, Predicted, run_on_hosts

SIZERS = [None, optimus, slaq, elastic_flow]


def jobs_of(submit, limit, *, deadline=1e6, needed=None, asked=1, peak=(1.0, 1.0), server=(0.0, 0.0)):
    n = len(submit)
    peak = np.broadcast_to(np.array(peak, float), (n, 2)).copy()
    limit = np.array(limit, float)

    def seconds(rows, sizes):
        """One at full CPU, slower with less of it."""
        return peak[rows, None, 0] / np.minimum(sizes[..., 0], 2 * peak[rows, None, 0])

    jobs = HostedJobs(
        np.array(submit, float), np.broadcast_to(np.array(deadline, float), n).copy(), limit,
        limit if needed is None else np.array(needed, float), np.broadcast_to(asked, n).copy(), peak,
        np.broadcast_to(np.array(server, float), (n, 2)).copy(), seconds,
    )  # fmt: skip
    return jobs, Predicted(seconds, jobs.needed)


PLAIN = HostedTerms(generous=1.0, servers=False)


def test_jobs_of_one_host_wait_for_each_other():
    jobs, believed = jobs_of([0, 1, 2], [100, 50, 10])
    outcome = run_on_hosts(jobs, believed, np.array([[1.0, 1.0]]), PLAIN)
    assert outcome.finished.tolist() == [100, 150, 160]
    srsf = run_on_hosts(jobs, believed, np.array([[1.0, 1.0]]), PLAIN.model_copy(update={"order": "srsf"}))
    assert srsf.finished.tolist() == [100, 160, 110]
    assert outcome.metrics()["useful"] == 1.0


def test_workers_share_the_iterations_and_a_job_ends_when_it_has_converged():
    jobs, believed = jobs_of([0], [100], needed=[60], asked=3)
    assert run_on_hosts(jobs, believed, np.array([[4.0, 4.0]]), PLAIN).finished.tolist() == [20]
    assert run_on_hosts(jobs, believed, np.array([[2.0, 2.0]]), PLAIN).finished.tolist() == [30]  # two fit


def test_the_configurator_gives_as_many_workers_as_the_deadline_needs():
    jobs, believed = jobs_of([0], [100], deadline=30.0)
    outcome = run_on_hosts(jobs, believed, np.array([[8.0, 8.0]]), HostedTerms(sized=True, servers=False))
    assert outcome.finished.tolist() == [25]  # four workers


def test_users_hold_more_than_they_use():
    jobs, believed = jobs_of([0], [100])
    outcome = run_on_hosts(jobs, believed, np.array([[2.0, 2.0]]), PLAIN.model_copy(update={"generous": 1.5}))
    assert outcome.held[0] == pytest.approx(outcome.finished[0] * 0.75)


def test_a_job_comes_again_with_less_cpu():
    jobs, believed = jobs_of([0], [100], peak=(1.0, 0.5))
    outcome = run_on_hosts(jobs, believed, np.array([[0.8, 1.0]]), HostedTerms(sized=True, servers=False))
    assert outcome.finished[0] == pytest.approx(100 / 0.85**2)


def test_a_job_that_never_fits_is_an_error():
    jobs, believed = jobs_of([0], [100], peak=(9.0, 1.0))
    for terms in (PLAIN, HostedTerms(sized=True)):
        with pytest.raises(SolverError, match="fits on no host even alone"):
            run_on_hosts(jobs, believed, np.array([[1.0, 1.0]]), terms)


def test_the_adjuster_saves_a_job_that_would_be_late():
    jobs, believed = jobs_of([0], [1000], deadline=900.0)
    wrong = Predicted(believed.seconds, np.array([1000.0]))
    alone = PLAIN.model_copy(update={"tick_s": 100.0, "change_s": 10.0})
    late = run_on_hosts(jobs, wrong, np.array([[4.0, 4.0]]), alone)
    saved = run_on_hosts(jobs, wrong, np.array([[4.0, 4.0]]), alone.model_copy(update={"adjusts": True}))
    assert (late.finished[0], late.met[0]) == (1000, False)
    assert saved.met[0]
    assert saved.changes >= 1


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000), order=st.sampled_from(["fifo", "edf", "srsf", "qore"]), sized=st.booleans(),
    adjusts=st.booleans(), servers=st.booleans(), sizer=st.sampled_from(SIZERS),
    spread=st.sampled_from(["least loaded", "first", "together"]),
)  # fmt: skip
def test_nobody_is_lost_and_nobody_does_more_than_there_is(seed, order, sized, adjusts, servers, sizer, spread):
    rng = np.random.default_rng(seed)
    n = 12
    jobs, believed = jobs_of(
        np.sort(rng.uniform(0, 2000, n)), rng.uniform(50, 2000, n), deadline=rng.uniform(100, 4000, n),
        asked=rng.integers(1, 5, n), peak=rng.uniform(0.5, 2, (n, 2)), server=rng.uniform(0.1, 0.5, (n, 2)),
    )  # fmt: skip
    capacity = rng.uniform(4, 8, (3, 2))
    terms = HostedTerms(order=order, sized=sized, adjusts=adjusts, servers=servers, spread=spread)
    outcome = run_on_hosts(jobs, believed, capacity, terms, sizer, seed)
    assert np.isfinite(outcome.finished).all()
    assert (outcome.started >= jobs.submit - 1e-9).all()
    # The fastest that an iteration can be is half a second, by five or more workers as fit.
    most = capacity[:, 0].sum() / (0.475 * jobs.peak[:, 0])
    assert (outcome.finished - outcome.started >= jobs.needed * 0.5 / most - 1e-6).all()
    span = outcome.finished.max() - jobs.submit.min()
    assert outcome.held.sum() <= span * (1 + 1e-9)
    again = run_on_hosts(jobs, believed, capacity, terms, sizer, seed)
    assert again.finished.tolist() == outcome.finished.tolist()


def test_thresholds_decide_whether_large_jobs_come_first():
    # Two wait for the first: one that needs all cores and one that needs one; both are equally urgent.
    jobs, believed = jobs_of([0, 1, 1], [10, 10, 10], deadline=[100, 100, 100], peak=[(4, 4), (4, 4), (1, 1)])
    started = []
    for light in (-1.0, 1.0):  # never light, or always
        terms = PLAIN.model_copy(update={"order": "qore", "thresholds": (light, 1.0, 1.0)})
        started.append(run_on_hosts(jobs, believed, np.array([[4.0, 4.0]]), terms).started.tolist())
    assert started == [[0, 20, 10], [0, 10, 20]]


def test_a_job_that_finds_no_room_to_grow_pays_nothing():
    # Each host has room for one worker of 1.5 cores: three are wanted at every event, two run.
    jobs, believed = jobs_of([0, 10, 20, 30], [300, 1, 1, 1], peak=[(1.5, 1), (0.1, 0.1), (0.1, 0.1), (0.1, 0.1)])

    def three(seen):
        return np.where(seen.row == 0, 3, 1)

    terms = HostedTerms(generous=1.0, servers=False, change_s=50.0, tick_s=1e6)
    outcome = run_on_hosts(jobs, believed, np.array([[2.0, 2.0], [2.0, 2.0]]), terms, three)
    assert outcome.finished[0] == 150
    assert outcome.changes == 0

"""The compiled clock against a plain loop that computes everything anew at every event."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.plain_simulator import plain_simulate
from mfcp.errors import SettingsError
from mfcp.simulator.beliefs import NoisyDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Keys, Ordering, Policy
from mfcp.simulator.semantics import PRESETS, preset
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
COLUMNS = ("started", "finished", "executed", "held", "lost", "stops", "record")
COMPILED = sorted(name for name, member in Policy.members.items() if issubclass(member, Ordering) and not member.asks)


def drawn(seed, n=60, overhead=True):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 40 * n, n))
    gpus, duration = rng.choice([1, 2, 3, 8], n, p=[0.5, 0.2, 0.2, 0.1]), np.exp(rng.normal(5, 1.2, n))
    columns = {"overhead": rng.uniform(0, 30, n)} if overhead else {}
    return Jobs.simple(submit, gpus, duration, deadline=submit + duration * rng.uniform(0.6, 2.5, n), **columns)


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=12)
@given(seed=st.integers(0, 10_000))
def test_ends_are_those_of_the_plain_loop(name, seed):
    jobs, belief = drawn(seed), NoisyDurations(mre=0.3)
    policy = Policy.build(name)
    if name == "las":
        policy = Policy.build(name, limits=(100.0, 700.0))
    expected = belief.durations(jobs, np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]))
    outcome = simulate(jobs, Cluster.parse("8"), policy, belief=belief, seed=seed)
    np.testing.assert_allclose(outcome.finished, plain_simulate(jobs, 8, policy, expected), rtol=1e-7)


def test_jobs_of_one_instant_start_in_turn_on_several_nodes():
    """The third does not pass the second, and nobody is lost: 3 + 3 fill two nodes of four, 2 more find no place."""
    jobs = Jobs.simple(np.zeros(3), np.array([3, 3, 2]), np.array([100.0, 10.0, 10.0]))
    outcome = simulate(jobs, Cluster.parse("2x4"), Policy.build("fifo"))
    assert outcome.finished.tolist() == [100, 10, 20]


@pytest.mark.parametrize("policy", ["fifo", "sjf", "easy", "srtf"])
def test_no_job_is_lost_or_run_twice_when_many_come_in_one_minute(policy):
    rng = np.random.default_rng(0)
    n = 1200
    submit = np.sort(np.floor(rng.uniform(0, 12 * n, n) / 60) * 60)
    gpus, duration = rng.choice([1, 2, 3, 5, 8, 16], n), np.exp(rng.normal(5, 1, n))
    outcome = simulate(Jobs.simple(submit, gpus, duration), Cluster.parse("8x8"), Policy.build(policy))
    assert np.isfinite(outcome.finished).all()
    assert outcome.executed.sum() == pytest.approx(duration.sum())
    started = outcome.log[outcome.log["event"] == "started"]["job"].value_counts()
    if policy != "srtf":
        assert (started == 1).all()
        assert len(started) == n


@settings(max_examples=300)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), data=st.data())
def test_one_job_that_fits_an_empty_cluster_starts_at_once(sizes, data):
    gpus = data.draw(st.integers(1, sum(sizes)))
    cluster = Cluster.parse(",".join(map(str, sizes)))
    outcome = simulate(Jobs.simple(np.zeros(1), np.array([gpus]), np.array([7.0])), cluster, Policy.build("fifo"))
    assert outcome.finished.tolist() == [7.0]


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


def test_runs_share_memory_and_nothing_else():
    """Rows of jobs are kept for the next run: an earlier outcome stays, and a later one does not depend on it."""
    rng, cluster = np.random.default_rng(0), Cluster.parse("4,2")
    sizes = (30, 5, 0, 60, 1, 30)
    cases = [Jobs.simple(np.sort(rng.uniform(0, 50, n)), rng.integers(1, 5, n), rng.uniform(1, 20, n)) for n in sizes]
    for name in ("fifo", "las", "easy", "srtf"):
        policy = Policy.build(name)
        before = [simulate(jobs, cluster, policy) for jobs in cases]
        told = [[getattr(outcome, column).copy() for column in COLUMNS] for outcome in before]
        for jobs, outcome, columns in reversed(list(zip(cases, before, told, strict=True))):
            again = simulate(jobs, cluster, policy)
            for column, values in zip(COLUMNS, columns, strict=True):
                np.testing.assert_array_equal(getattr(outcome, column), values)
                np.testing.assert_array_equal(getattr(again, column), values)


def test_a_long_log_grows():
    n = 300
    jobs = made(np.arange(n), np.ones(n), np.full(n, 3.0) - np.arange(n) * 0.005)
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("las", limits=tuple(np.arange(1, 60) * 0.05)))
    assert len(outcome.log) > 8 * n
    assert not np.isnan(outcome.finished).any()


class Latest(Ordering):
    """Whoever came last, asked for at every event; who runs is left alone."""

    name: ClassVar[str] = ""
    asks: ClassVar[bool] = True

    def keys(self, view):
        return Keys(np.zeros(len(view.submit)))

    def values(self, view, instant):
        return -view.submit[instant.active]


@pytest.mark.parametrize("semantics", ["plain", "muri"])
def test_a_policy_that_asks_and_does_not_preempt_is_asked_of_all_that_wait(semantics):
    jobs = made([0, 1, 2, 3], [1, 1, 1, 1], [10, 10, 10, 10])
    outcome = simulate(jobs, Cluster.parse("1"), Latest(), semantics=PRESETS[semantics])
    assert outcome.started.tolist() == [0, 30, 20, 10]


def test_backfilling_needs_an_order_that_stays():
    with pytest.raises(SettingsError, match="backfilling needs an order that stays"):
        simulate(made([0], [1], [1]), Cluster.parse("1"), Latest(skip="backfill"))

"""What must hold of every policy, on every cluster, with and without failures."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.beliefs import Nothing, RelativeError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, Policy
from mfcp.simulator.semantics import PRESETS, Events
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
POLICIES = sorted(Policy.members)
ORDERINGS = [name for name in POLICIES if issubclass(Policy.members[name], Ordering)]
CLUSTERS = st.sampled_from(["8", "2x8", "8x2"])
SHARES = [name for name in POLICIES if name not in ORDERINGS]
EVENTS = sorted(name for name, terms in PRESETS.items() if isinstance(terms, Events))
every_ordering = pytest.mark.parametrize("name", ORDERINGS)
every_policy = pytest.mark.parametrize("name", POLICIES)


def drawn(seed, n=40, success=1.0):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 30 * n, n))
    gpus, duration = rng.choice([1, 2, 4, 8], n, p=[0.5, 0.2, 0.2, 0.1]), np.exp(rng.normal(5, 1.2, n))
    return Jobs.simple(
        submit, gpus, duration, overhead=rng.uniform(0, 20, n), success=np.full(n, success),
        deadline=submit + duration * rng.uniform(0.6, 2.5, n), user=rng.choice(["a", "b"], n),
    )  # fmt: skip


def in_use(log):
    """Accelerators in use after every instant of a log."""
    change = log["gpus"].where(log["event"] == "started", 0) - log["gpus"].where(
        log["event"].isin(["stopped", "failed", "finished"]), 0
    )
    return change.groupby(log["time_s"]).sum().cumsum()


@every_ordering
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), cluster=st.sampled_from(["8", "2x8", "8x2"]), terms=st.sampled_from(EVENTS))
def test_capacity_gangs_and_all_jobs(name, seed, cluster, terms):
    """Capacity is never exceeded, a job has all its accelerators or none, nobody is lost or ends too early."""
    jobs, place = drawn(seed, success=0.8), Cluster.parse(cluster)
    outcome = simulate(jobs, place, Policy.build(name), semantics=PRESETS[terms], seed=seed, retries=40)
    used = in_use(outcome.log)
    assert used.max() <= place.accelerators
    assert used.iloc[-1] == 0
    assert not np.isnan(outcome.finished).any()
    assert (outcome.finished - outcome.started >= jobs.duration * (1 - 1e-9)).all()
    assert (outcome.executed >= jobs.duration * (1 - 1e-9)).all()
    counts = outcome.log.groupby("event").size()
    assert counts["submitted"] == counts["finished"] == len(jobs.id)
    assert counts["started"] == counts["finished"] + counts.get("failed", 0) + counts.get("stopped", 0)


@every_policy
def test_the_same_seed_gives_the_same_log(name):
    first, second = (
        simulate(drawn(3), Cluster.parse("8"), Policy.build(name), belief=RelativeError(), seed=5).log for _ in range(2)
    )
    assert first.equals(second)


@every_policy
def test_one_job_takes_its_duration(name):
    jobs = Jobs.simple(np.array([7.0]), np.array([3]), np.array([100.0]), deadline=np.array([200.0]))
    assert simulate(jobs, Cluster.parse("8"), Policy.build(name)).jct.tolist() == [100.0]


@pytest.mark.parametrize("name", [name for name in SHARES if not Policy.members[name].strict])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_shares_keep_capacity_and_lose_nobody(name, seed):
    jobs = drawn(seed, n=25)
    cluster = Cluster.parse("a:8,b:8")
    speed = np.random.default_rng(seed).uniform(0.5, 2, (25, 2))
    outcome = simulate(jobs, cluster, Policy.build(name), speed=speed)
    used = in_use(outcome.log)
    assert used.max() <= 16
    assert used.iloc[-1] == 0
    assert not np.isnan(outcome.finished).any()
    assert (outcome.executed >= jobs.duration / speed.max(axis=1) * (1 - 1e-9)).all()


@every_ordering
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_nothing_idles_while_a_job_that_fits_waits(name, seed):
    """Work is conserved by every policy that lets jobs pass others: on a pool, what waits does not fit."""
    policy = Policy.build(name)
    if policy.skip != "any":
        pytest.skip("whoever is first in line blocks the others, or reserves")
    jobs = drawn(seed)
    log = simulate(jobs, Cluster.parse("8"), policy).log
    free, waiting = 8, {}
    for _, rows in log.groupby("time_s"):
        for row in rows.itertuples():
            if row.event == "started":
                free -= row.gpus
                waiting.pop(row.job)
            elif row.event in ("stopped", "submitted"):
                free += row.gpus * (row.event == "stopped")
                waiting[row.job] = row.gpus
            elif row.event == "finished":
                free += row.gpus
        assert min(waiting.values(), default=9) > free


def optimal_jct(submit, duration):
    """Least sum of completion times on one device, by trying every job at every whole second."""

    @cache
    def best(now, left):
        if not any(left):
            return 0
        ready = [j for j, rest in enumerate(left) if rest and submit[j] <= now]
        if not ready:
            return sum(1 for rest in left if rest) + best(now + 1, left)
        options = []
        for j in ready:
            after = tuple(rest - (i == j) for i, rest in enumerate(left))
            options.append(sum(1 for rest in left if rest) + best(now + 1, after))
        return min(options)

    return best(0, tuple(duration)) - sum(submit)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=4))
def test_srsf_with_the_truth_is_optimal_on_one_device(drawn_jobs):
    rows = sorted(drawn_jobs)
    submit, duration = (np.array(column) for column in zip(*rows, strict=True))
    jobs = Jobs.simple(submit.astype(float), np.ones(len(rows), int), duration.astype(float))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("srsf"))
    assert outcome.jct.sum() == pytest.approx(optimal_jct(tuple(submit.tolist()), tuple(duration.tolist())))


@pytest.mark.parametrize("name", ["fifo", "las", "edf", "qore"])
def test_policies_without_durations_are_blind_to_them(name):
    """Beliefs, none among them, change nothing."""
    jobs, cluster = drawn(1), Cluster.parse("8")
    runs = [simulate(jobs, cluster, Policy.build(name), belief=b) for b in (Nothing(), RelativeError(mre=0.7))]
    assert runs[0].log.equals(runs[1].log)


def test_a_belief_changes_what_uses_it():
    jobs, cluster = drawn(1), Cluster.parse("8")
    true, wrong = (simulate(jobs, cluster, Policy.build("srsf"), belief=RelativeError(mre=mre)) for mre in (0, 0.7))
    assert not true.log.equals(wrong.log)
    assert true.jct.mean() < wrong.jct.mean()

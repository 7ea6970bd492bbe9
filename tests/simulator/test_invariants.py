"""What must hold of every policy, on every cluster, with and without failures."""

from functools import cache
from itertools import groupby
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.errors import SettingsError, SolverError
from mfcp.simulator.beliefs import NoDurations, NoisyDurations, TrueDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, Policy, Shares
from mfcp.simulator.policies.deciding import Deciding
from mfcp.simulator.policies.hosting import Resizing
from mfcp.simulator.semantics import PRESETS, EventTerms, RoundTerms
from mfcp.simulator.simulation import import_policies, simulate
from tests.simulator import random_nodes

import_policies()
POLICIES = sorted(Policy.members)
ORDERINGS = [name for name in POLICIES if issubclass(Policy.members[name], Ordering)]
CLUSTERS = st.sampled_from(["8", "2x8", "8x2"])
SHARES = [name for name in POLICIES if issubclass(Policy.members[name], Shares)]
DECIDING = [name for name in POLICIES if issubclass(Policy.members[name], Deciding)]
RESIZING = [name for name in POLICIES if issubclass(Policy.members[name], Resizing)]
EVENTS = sorted(name for name, terms in PRESETS.items() if isinstance(terms, EventTerms))
every_ordering = pytest.mark.parametrize("name", ORDERINGS)
every_policy = pytest.mark.parametrize("name", POLICIES)


def drawn(seed, n=40, success=1.0):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 30 * n, n))
    gpus, duration = rng.choice([1, 2, 4, 8], n, p=[0.5, 0.2, 0.2, 0.1]), np.exp(rng.normal(5, 1.2, n))
    return Jobs.simple(
        submit, gpus, duration, overhead=rng.uniform(0, 20, n), success=np.full(n, success),
        deadline=submit + duration * rng.uniform(0.6, 2.5, n), user=rng.choice(["a", "b"], n),
        stages=duration[:, None] * rng.dirichlet([0.5] * 3, n),
    )  # fmt: skip


def in_use(log):
    """Accelerators in use after every instant of a log."""
    change = log["gpus"].where(log["event"] == "started", 0) - log["gpus"].where(
        log["event"].isin(["stopped", "failed", "finished"]), 0
    )
    return change.groupby(log["time_s"]).sum().cumsum()


def instants(log):
    """(event, job, accelerators) of each row, a list for every instant of a log."""
    columns = (log[name].tolist() for name in ("time_s", "event", "job", "gpus"))
    for _, rows in groupby(zip(*columns, strict=True), key=itemgetter(0)):
        yield [row[1:] for row in rows]


@every_ordering
@settings(max_examples=8)
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
        simulate(drawn(3), Cluster.parse("8"), Policy.build(name), belief=NoisyDurations(), seed=5).log
        for _ in range(2)
    )
    assert first.equals(second)


@every_policy
def test_one_job_takes_its_duration(name):
    settings = {"sized": False, "adjusts": False} if name == "qore_dl" else {"most": 3} if name in RESIZING else {}
    settings |= {"ahead_s": 1.0} if name == "slaq_on_hosts" else {}  # further ahead it ends, whatever it has
    jobs = Jobs.simple(
        np.array([7.0]), np.array([3]), np.array([100.0]), deadline=np.array([200.0]),
        stages=np.array([[20.0, 60, 10]]), user=np.array(["a"]),
    )  # fmt: skip
    rigid = Configurations.rigid(jobs, Cluster.parse("8"))
    outcome = simulate(jobs, Cluster.parse("8"), Policy.build(name, **settings), configurations=rigid)
    assert outcome.jct == pytest.approx([100.0], rel=1e-12)


@pytest.mark.parametrize("name", DECIDING)
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_sizes_keep_capacity_and_lose_nobody(name, seed):
    """What is held changes with `resized`; nobody is lost but those who were declined; no rate is exceeded."""
    jobs, cluster = drawn(seed, n=25), Cluster.parse("8")
    ways = Configurations.elastic(jobs, cluster)
    outcome = simulate(jobs, cluster, Policy.build(name), configurations=ways)
    held, most = dict.fromkeys(range(25), 0), 0
    for rows in instants(outcome.log):
        for event, job, gpus in rows:
            if event in ("started", "resized"):
                held[job] = gpus
            elif event in ("stopped", "finished"):
                held[job] = 0
        most = max(most, sum(held.values()))
    assert 0 < most <= 8
    declined = outcome.log.loc[outcome.log["event"] == "declined", "job"]
    assert sorted(np.flatnonzero(np.isnan(outcome.finished))) == sorted(declined)
    done = ~np.isnan(outcome.finished)
    least = jobs.iterations / ways.rate.max(axis=1)
    assert (outcome.finished[done] - outcome.started[done] >= least[done] * (1 - 1e-9)).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_jobs_admitted_with_true_times_meet_their_deadlines(seed):
    jobs = drawn(seed, n=30)
    outcome = simulate(jobs, Cluster.parse("8"), Policy.build("elastic_flow"))
    done = ~np.isnan(outcome.finished)
    assert done.any()
    assert (outcome.finished[done] <= jobs.deadline[done] + 1e-6).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 7))
def test_allox_and_hydra_on_one_device_run_the_shortest_first(seed, n):
    duration = np.random.default_rng(seed).permutation(np.arange(1, n + 1)) * 100.0
    jobs = Jobs.simple(np.zeros(n), np.ones(n), duration)
    for policy in (Policy.build("allox"), Policy.build("hydra", penalty=0.0)):
        terms = RoundTerms(round_s=50, reset_s=0) if policy.name == "allox" else None
        outcome = simulate(jobs, Cluster.parse("1"), policy, semantics=terms)
        assert np.argsort(outcome.finished).tolist() == np.argsort(duration).tolist()


@pytest.mark.parametrize("name", [name for name in SHARES if not Policy.members[name].strict])
@settings(max_examples=6)
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
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_nothing_idles_while_a_job_that_fits_waits(name, seed):
    """Work is conserved by every policy that lets jobs pass others: on a pool, what waits does not fit."""
    policy = Policy.build(name)
    if policy.skip != "any":
        pytest.skip("whoever is first in line blocks the others, or reserves")
    jobs = drawn(seed)
    log = simulate(jobs, Cluster.parse("8"), policy).log
    free, waiting = 8, {}
    for rows in instants(log):
        for event, job, gpus in rows:
            if event == "started":
                free -= gpus
                waiting.pop(job)
            elif event in ("stopped", "submitted"):
                free += gpus * (event == "stopped")
                waiting[job] = gpus
            elif event == "finished":
                free += gpus
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


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=4))
def test_srsf_with_the_truth_is_optimal_on_one_device(drawn_jobs):
    rows = sorted(drawn_jobs)
    submit, duration = (np.array(column) for column in zip(*rows, strict=True))
    jobs = Jobs.simple(submit.astype(float), np.ones(len(rows), int), duration.astype(float))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("srsf"))
    assert outcome.jct.sum() == pytest.approx(optimal_jct(tuple(submit.tolist()), tuple(duration.tolist())))


@every_policy
def test_a_policy_is_blind_to_what_it_does_not_use(name):
    """One that uses durations refuses to run without; the others do the same whatever is believed, or nothing."""
    jobs, cluster, policy = drawn(1, n=25), Cluster.parse("8"), Policy.build(name)
    beliefs = (NoDurations(), TrueDurations(), NoisyDurations(mre=0.7))
    if "expected" in policy.uses:
        with pytest.raises(SettingsError, match="needs expected durations"):
            simulate(jobs, cluster, policy, belief=beliefs[0])
        return
    runs = [simulate(jobs, cluster, policy, belief=belief).log for belief in beliefs]
    assert runs[0].equals(runs[1])
    assert runs[0].equals(runs[2])


@pytest.mark.parametrize("name", [name for name in POLICIES if "expected" in Policy.members[name].uses])
def test_a_policy_that_forgets_to_say_that_it_uses_durations_is_found_out(name):
    """The test above fails for it: it raises, or does not do the same with nothing believed as with errors."""
    policy = type("Forgetful", (Policy.members[name],), {"name": "", "uses": ()})()
    jobs, logs = drawn(1, n=25), []
    for belief in (NoDurations(), TrueDurations(), NoisyDurations(mre=0.7)):
        try:
            logs.append(simulate(jobs, Cluster.parse("8"), policy, belief=belief).log)
        except (SettingsError, SolverError, ValueError, IndexError, RuntimeWarning):
            return
    assert not (logs[0].equals(logs[1]) and logs[0].equals(logs[2]))


def test_a_belief_changes_what_uses_it():
    jobs, cluster = drawn(1), Cluster.parse("8")
    true, wrong = (simulate(jobs, cluster, Policy.build("srsf"), belief=NoisyDurations(mre=mre)) for mre in (0, 0.7))
    assert not true.log.equals(wrong.log)
    assert true.jct.mean() < wrong.jct.mean()


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_any_policy_on_random_nodes(first):
    """A part of the runs of `random_nodes.py`."""
    for seed in range(first, first + 50):
        random_nodes.run(seed)

"""Guaranteed accelerators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy, View
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def jobs_of(rows):
    """Rows of user, submission, accelerators, duration."""
    user, submit, gpus, duration = zip(*rows, strict=True)
    return Jobs.simple(np.array(submit, float), np.array(gpus), np.array(duration, float), user=np.array(user))


def test_who_uses_others_accelerators_gives_them_back():
    jobs = jobs_of([("ann", 0, 2, 100), ("ann", 0, 2, 100), ("bob", 10, 2, 50)])
    outcome = simulate(jobs, Cluster.parse("4"), Policy.build("quota"))
    assert outcome.finished.tolist() == [100, 150, 60]  # the second of ann waits from 10 to 60
    assert outcome.stops.tolist() == [0, 1, 0]


def test_quotas_are_given_or_parts_of_the_rest():
    jobs = jobs_of([("bob", 0, 4, 100), ("ann", 1, 3, 100), ("cid", 2, 1, 100), ("cid", 3, 1, 100)])
    assert Policy.build("quota", of={"ann": 6}).quotas(_view(jobs, 8)).tolist() == [1, 6, 1, 1]
    outcome = simulate(jobs, Cluster.parse("4"), Policy.build("quota", of={"ann": 3}))
    # Nothing is left to bob and cid: they take what ann does not need, bob first, whose job does not fit beside hers.
    assert outcome.started.tolist() == [0, 1, 2, 200]
    assert outcome.finished.tolist() == [200, 101, 201, 300]


def _view(jobs, accelerators):
    return View.of(jobs, Cluster.parse(str(accelerators)), jobs.duration)


@given(st.integers(0, 10_000), st.booleans())
def test_a_job_within_its_quota_starts_at_once_and_is_never_stopped(seed, named):
    """On one pool; beside a loop over the jobs that are there."""
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(1, 25)), int(rng.integers(3, 17))
    submit = np.sort(rng.integers(0, 40, n).astype(float))
    jobs = Jobs.simple(
        submit, rng.integers(1, size + 1, n), rng.integers(1, 30, n).astype(float), user=rng.choice(["a", "b", "c"], n)
    )
    of = {jobs.user[0]: int(rng.integers(0, size + 1))} if named else {}
    policy = Policy.build("quota", of=of)
    outcome = simulate(jobs, Cluster.parse(str(size)), policy)
    quota = policy.quotas(_view(jobs, size))
    assert sum(dict(zip(jobs.user.tolist(), quota.tolist(), strict=True)).values()) <= size
    for job in range(n):
        mine = (jobs.user == jobs.user[job]) & (jobs.gpus <= quota)
        there = [other for other in range(job) if mine[other] and outcome.finished[other] > submit[job]]
        if jobs.gpus[job] + sum(jobs.gpus[other] for other in there) <= quota[job]:
            assert outcome.started[job] == submit[job]
            assert outcome.stops[job] == 0
    assert np.isfinite(outcome.finished).all()


@pytest.mark.parametrize(
    ("rows", "of", "said"),
    [
        ([("", 0, 1, 1)], {}, "needs users; the trace has no column user"),
        ([("ann", 0, 1, 1)], {"bob": 1}, "no job of the trace is of user 'bob'"),
        ([("ann", 0, 1, 1)], {"ann": 9}, "9 accelerators are promised, and the cluster has 8"),
    ],
)
def test_what_cannot_be_is_told(rows, of, said):
    with pytest.raises(SettingsError, match=said):
        simulate(jobs_of(rows), Cluster.parse("8"), Policy.build("quota", of=of))

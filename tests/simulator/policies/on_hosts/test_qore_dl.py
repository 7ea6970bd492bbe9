"""Qore-DL as a policy."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def drawn(seed, n=80):
    """Jobs that take half of what there is while they come."""
    rng = np.random.default_rng(seed)
    submit, gpus, duration = np.sort(rng.uniform(0, 200 * n, n)), rng.integers(1, 5, n), rng.uniform(200, 3000, n)
    deadline = submit + duration * rng.uniform(0.66, 2.44, n) + 750
    return Jobs.simple(submit, gpus, duration, deadline=deadline, cpu=gpus * 2000, memory=gpus * 8000)


def met(policy, seed, **settings):
    cluster = Cluster(np.full(4, 8), np.zeros(4, int), cpu=np.full(4, 32000), memory=np.full(4, 128000))
    return simulate(drawn(seed), cluster, Policy.build(policy, **settings)).metrics()["deadlines_met"]


def test_sizes_for_deadlines_and_changes_while_jobs_run_each_meet_more():
    """Means over ten draws: what users ask for, then the configurator and the order, then the adjuster."""
    runs = [{"order": "fifo", "sized": False, "adjusts": False}, {"adjusts": False}, {}]
    means = [np.mean([met("qore_dl", seed, **settings) for seed in range(10)]) for settings in runs]
    assert means[0] < means[1] < means[2]


@pytest.mark.parametrize("search", ["exhaustive", "genetic"])
def test_the_same_seed_gives_the_same_run(search):
    assert met("qore_dl", 3, search=search) == met("qore_dl", 3, search=search)

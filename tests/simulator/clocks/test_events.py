"""The compiled clock against a plain loop that computes everything anew at every event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.plain_simulator import plain_simulate
from mfcp.simulator.beliefs import RelativeError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
COMPILED = sorted(name for name, member in Policy.members.items() if issubclass(member, Ordering) and not member.asks)


def drawn(seed, n=60, overhead=True):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 40 * n, n))
    gpus, duration = rng.choice([1, 2, 3, 8], n, p=[0.5, 0.2, 0.2, 0.1]), np.exp(rng.normal(5, 1.2, n))
    columns = {"overhead": rng.uniform(0, 30, n)} if overhead else {}
    return Jobs.simple(submit, gpus, duration, deadline=submit + duration * rng.uniform(0.6, 2.5, n), **columns)


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_ends_are_those_of_the_plain_loop(name, seed):
    jobs, belief = drawn(seed), RelativeError(mre=0.3)
    policy = Policy.build(name)
    if name == "las":
        policy = Policy.build(name, limits=(100.0, 700.0))
    expected = belief.durations(jobs, np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]))
    outcome = simulate(jobs, Cluster.parse("8"), policy, belief=belief, seed=seed)
    np.testing.assert_allclose(outcome.finished, plain_simulate(jobs, 8, policy, expected), rtol=1e-7)

"""Minimum satisfactory shares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.scaling.elastic_flow import minimum_shares

CURVE = [1.0, 1.8, 3.0]


def test_the_smallest_size_that_suffices(demand):
    for deadline, level in [(100.0, 0), (60.0, 1), (40.0, 2)]:
        plan = minimum_shares(demand([CURVE], [4], deadline=[deadline]))
        assert plan.met.all()
        # A larger size may come late: the smaller one runs until then.
        assert plan.level[0].max() == level
    assert not minimum_shares(demand([CURVE], [4], deadline=[33.0])).met.any()


def test_later_deadlines_take_what_is_left(demand):
    plan = minimum_shares(demand([CURVE, CURVE], [4], deadline=[34.0, 200.0]))
    assert plan.met.tolist() == [True, True]
    assert plan.at(0.0)[0].tolist() == [2, -1]
    assert plan.at(0.0)[1] == pytest.approx(100 / 3)
    assert plan.at(40.0)[0].tolist() == [-1, 0]


@given(seed=st.integers(0, 10_000), k=st.integers(1, 8))
@settings(max_examples=50)
def test_plans_fit_and_do_what_they_promise(demand, seed, k):
    rng = np.random.default_rng(seed)
    left = rng.uniform(5, 100, k)
    seen = demand([CURVE] * k, [4], left=left, deadline=left * rng.uniform(0.2, 6, k))
    plan = minimum_shares(seen)
    gpus, rate = np.append(seen.gpus, 0), np.append(CURVE, 0.0)
    moments = np.unique(plan.time[np.isfinite(plan.time)])
    for moment in moments:
        assert gpus[plan.at(moment + 1e-9)[0]].sum() <= 4
    for i in np.flatnonzero(plan.met):
        ends = np.append(plan.time[i, 1:], np.inf)
        length = np.where(np.isfinite(ends), ends, plan.time[i]) - np.where(np.isfinite(ends), plan.time[i], 0.0)
        length = np.where(np.isfinite(plan.time[i]) & np.isfinite(ends), length, 0.0)
        assert (length * rate[plan.level[i]]).sum() == pytest.approx(left[i])
        assert plan.time[i][np.isfinite(plan.time[i])].max() <= seen.deadline[i] + 1e-9


def test_what_is_free_goes_where_a_step_costs_least_accelerator_time(demand):
    seen = demand([[1.0, 1.9, 3.7], [1.0, 1.1, 1.2]], [5], deadline=[500.0, 500.0])
    assert Policy.build("elastic_flow").decide(seen).chosen.tolist() == [2, 0]


def test_a_new_job_that_would_break_a_promise_is_declined(demand):
    policy = Policy.build("elastic_flow")
    seen = demand([CURVE, CURVE], [4], deadline=[40.0, 45.0])
    assert policy.admit(seen, np.array([False, True])).tolist() == [True, False]
    assert policy.admit(seen, np.array([True, True])).tolist() == [True, False]
    assert Policy.build("elastic_flow", strict=True).admit(seen, np.array([True, True])).tolist() == [False, False]

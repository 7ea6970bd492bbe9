"""The heuristic order of MLFS, by closed forms."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Instant, Policy, View
from mfcp.simulator.simulation import import_policies


def values(gpus, duration, executed, deadline=None, now=0.0, iterations=None, **settings):
    import_policies()
    duration, executed = np.array(duration, float), np.array(executed, float)
    end = np.full(len(gpus), np.inf) if deadline is None else np.array(deadline, float)
    jobs = Jobs.simple(np.zeros(len(gpus)), gpus, duration, deadline=end)
    view = View.of(jobs, Cluster.parse("4"), duration)
    if iterations is not None:
        view = View(**{**vars(view), "iterations": np.array(iterations, float)})
    instant = Instant(now, np.arange(len(gpus)), duration - executed, executed)
    return Policy.build("mlfs", **settings).values(view, instant)


def loss(part):
    return 1 / (1 + 9 * part)


def test_importance_is_the_fall_of_the_loss_an_accelerator_second():
    found = values([1, 2, 4], [100, 100, 400], [0, 50, 100])
    h = 1e-6
    for gpus, whole, done, value in zip([1, 2, 4], [100, 100, 400], [0, 50, 100], found, strict=True):
        fall = (loss((done - h) / whole) - loss((done + h) / whole)) / (2 * h) / gpus
        assert value == pytest.approx(-fall, rel=1e-4)


def test_the_more_urgent_first_and_never_more_urgent_than_what_is_left():
    found = values([1, 1, 1], [100, 100, 100], [0, 0, 0], deadline=[400, 200, 50])
    assert found == pytest.approx(-0.09 * np.array([0.25, 0.5, 1.0]))
    assert np.argsort(values([1, 1], [100, 100], [0, 0], deadline=[300, 250], now=100.0)).tolist() == [1, 0]


def test_what_has_converged_comes_last():
    found = values([1, 1], [100, 100], [90, 0], iterations=[1000, 1000], gain=0.0015)
    assert found[0] > 0 > found[1]  # 9 / 9.1 / 1000 of its loss an iteration against 9 / 1000
    assert (values([1, 1], [100, 100], [90, 0], iterations=[1000, 1000]) < 0).all()


def test_fresh_jobs_pass_those_that_have_learned_most(ends):
    assert ends("mlfs", [(0, 1, 10), (8, 1, 10)]) == pytest.approx([20, 18])

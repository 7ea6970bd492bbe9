"""The queue order of Qore-DL."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Instant, Policy, View
from mfcp.simulator.simulation import import_policies


def values(gpus, deadline, now, capacity):
    import_policies()
    jobs = Jobs.simple(np.zeros(len(gpus)), gpus, np.ones(len(gpus)), deadline=np.array(deadline, float))
    view = View.of(jobs, Cluster.parse(str(capacity)), jobs.duration)
    instant = Instant(now, np.arange(len(gpus)), jobs.duration, np.zeros(len(gpus)))
    return Policy.build("qore").values(view, instant)


def test_large_jobs_first_under_light_load_and_small_ones_under_heavy_load():
    assert np.argsort(values([1, 2, 4], [100, 100, 100], 0.0, 16)).tolist() == [2, 1, 0]
    assert np.argsort(values([1, 2, 4], [100, 100, 100], 0.0, 6)).tolist() == [0, 1, 2]


def test_the_more_urgent_first_and_the_overdue_before_all():
    assert np.argsort(values([1, 1, 1, 1], [100, 50, 9, 5], 10.0, 2)).tolist() == [3, 2, 1, 0]


def test_a_run_asks_for_the_order_at_every_event(ends):
    assert ends("qore", [(0, 1, 10, 30), (1, 1, 5, 9), (2, 1, 2, 40)]) == pytest.approx([15, 6, 17])

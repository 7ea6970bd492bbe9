"""What a policy sees."""

import numpy as np

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import View


def test_a_view_has_expected_durations_and_never_true_ones():
    jobs = Jobs.simple(np.zeros(2), np.array([1, 2]), np.array([5.0, 6.0]))
    view = View.of(jobs, Cluster.parse("2"), np.array([50.0, np.nan]))
    assert view.history.tolist() == [50.0]
    assert not any(np.array_equal(getattr(view, name), jobs.duration) for name in ("expected", "history"))

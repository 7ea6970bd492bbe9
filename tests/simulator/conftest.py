"""Small runs whose ends can be worked out by hand."""

import numpy as np
import pytest

from mfcp.registry import import_members
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import simulate


@pytest.fixture(scope="session")
def ends():
    """Ends of jobs, given as (submit, gpus, duration[, deadline]), on a pool."""
    import_members("mfcp.simulator.policies.ordering")

    def run(policy, jobs, gpus=1, **settings):
        rows = np.array(jobs, float)
        columns = {"deadline": rows[:, 3]} if rows.shape[1] == 4 else {}
        made = Jobs.simple(rows[:, 0], rows[:, 1], rows[:, 2], **columns)
        outcome = simulate(made, Cluster.parse(str(gpus)), Policy.build(policy, **settings))
        return outcome.finished.tolist()

    return run

"""Small runs whose ends can be worked out by hand."""

from random import Random

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Moment, Policy
from mfcp.simulator.simulation import import_policies, simulate


@pytest.fixture(scope="session")
def ends():
    """Ends of jobs, given as (submit, gpus, duration[, deadline]), on a pool."""
    import_policies()

    def run(policy, jobs, gpus=1, **settings):
        rows = np.array(jobs, float)
        columns = {"deadline": rows[:, 3]} if rows.shape[1] == 4 else {}
        made = Jobs.simple(rows[:, 0], rows[:, 1], rows[:, 2], **columns)
        outcome = simulate(made, Cluster.parse(str(gpus)), Policy.build(policy, **settings))
        return outcome.finished.tolist()

    return run


@pytest.fixture
def moment():
    """A reset as a policy sees it."""
    import_policies()

    def make(speed, size, **changes):
        speed = np.array(speed, float)
        k = len(speed)
        columns = {
            "job": np.arange(k), "gpus": np.ones(k, np.int64), "left": np.full(k, 100.0), "waited": np.zeros(k),
            "isolated": np.zeros(k), "before": np.zeros_like(speed), "freed": (), "deadline": np.full(k, np.inf),
        }  # fmt: skip
        return Moment(speed=speed, size=np.array(size), random=Random(0), **(columns | changes))

    return make

"""What a policy that lets jobs share accelerators sees."""

import numpy as np
import pytest

from mfcp.simulator.policies.colocating import Present


@pytest.fixture(scope="session")
def present():
    """k jobs that wait, on nodes of these sizes; `changes` are other columns."""

    def make(gpus, sizes, now=0.0, **changes):
        k, node = len(gpus), np.repeat(np.arange(len(sizes)), sizes)
        columns = {
            "job": np.arange(k), "deadline": np.full(k, np.inf), "step": np.full(k, 3.0), "stages": np.ones((k, 3)),
            "overhead": np.zeros(k), "left": np.full(k, 100.0), "executed": np.zeros(k),
            "holds": np.zeros((k, len(node)), bool),
        }  # fmt: skip
        columns |= {name: np.array(values) for name, values in changes.items()}
        return Present(now=now, gpus=np.array(gpus), node=node, **columns)

    return make

"""What a policy that decides sees."""

import numpy as np
import pytest

from mfcp.simulator.policies.deciding import Demand
from mfcp.simulator.simulation import import_policies


@pytest.fixture(scope="session")
def demand():
    """k jobs with rates (k, C) on configurations of one type, by default 1, 2, 4, … accelerators."""
    import_policies()

    def make(rate, size, gpus=None, types=None, now=0.0, **changes):
        rate = np.array(rate, float)
        k, ways = rate.shape
        columns = {
            "job": np.arange(k), "submit": np.zeros(k), "deadline": np.full(k, np.inf), "asked": np.ones(k, np.int64),
            "left": np.full(k, 100.0), "executed": np.zeros(k), "chosen": np.full(k, -1), "watts": np.zeros(ways),
        }  # fmt: skip
        columns |= {name: np.array(values) for name, values in changes.items()}
        gpus = 2 ** np.arange(ways) if gpus is None else np.array(gpus)
        kinds = np.zeros(ways, np.int64) if types is None else np.array(types)
        return Demand(now=now, rate=rate, gpus=gpus, type=kinds, size=np.array(size), **columns)

    return make

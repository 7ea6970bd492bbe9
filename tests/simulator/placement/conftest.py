"""Requests and machines of a test, made from short rows."""

import numpy as np
import pytest

from mfcp.registry import import_members
from mfcp.simulator.placement.machines import Machines, Requests


@pytest.fixture(scope="session")
def requests():
    """Rows of (cores, memory, accelerators, thousandths of each), all equally common."""
    import_members("mfcp.simulator.placement")

    def make(rows, allowed=None):
        table = np.array(rows, np.int64)
        fits = np.ones((len(rows), 1), bool) if allowed is None else np.array(allowed)
        part = np.full(len(rows), 1 / len(rows))
        return Requests(table[:, 0] * 1000, table[:, 1], table[:, 2], table[:, 3], fits, part)

    return make


@pytest.fixture(scope="session")
def machines():
    """Rows of (cores, memory, accelerators)."""

    def make(rows, kinds, model=None):
        table = np.array(rows, np.int64)
        model = np.zeros(len(rows), np.int64) if model is None else np.array(model)
        return Machines.empty(table[:, 0] * 1000, table[:, 1], table[:, 2], model, kinds)

    return make

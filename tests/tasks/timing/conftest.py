"""Graphs and operator times fitted to them, once for all tests of group `timing`."""

import numpy as np
import pytest
from timed_graphs import MACHINES, QUICK, models, truth

from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.timing.operator_times import OperatorTimes


@pytest.fixture(scope="session")
def graphs():
    return build_graphs(*models(96))


@pytest.fixture(scope="session")
def fitted(graphs):
    steps = truth(graphs).select(np.arange(72))
    steps.seconds[0, :30] = np.nan
    return OperatorTimes.fit(graphs, MACHINES, steps, seed=0, settings=QUICK)

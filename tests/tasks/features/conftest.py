"""Graphs and an encoder trained on them, once for all tests of group `encoder`."""

import numpy as np
import pytest
from encoded_graphs import QUICK, chains


@pytest.fixture(scope="session")
def graphs():
    return chains(48)


@pytest.fixture(scope="session")
def fitted(graphs):
    return QUICK.fit(graphs, np.arange(40), seed=0)

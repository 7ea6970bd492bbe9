"""Speeds of pairs."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.simulator.pairs import JobPairs


@pytest.mark.parametrize(
    ("kind", "speed", "message"),
    [
        ([0], np.ones((1, 2, 1, 2)), "expected the shape"),
        ([0], np.ones((1, 1, 1, 3)), "expected the shape"),
        ([0, 2], np.ones((2, 2, 1, 2)), "expected kinds 0 to 1, got 0 to 2"),
        ([-1], np.ones((2, 2, 1, 2)), "expected kinds 0 to 1, got -1"),
        ([0], np.full((1, 1, 1, 2), -1.0), "numbers of at least 0"),
        ([0], np.full((1, 1, 1, 2), np.nan), "numbers of at least 0"),
    ],
)
def test_what_makes_no_sense_is_an_error(kind, speed, message):
    with pytest.raises(DataError, match=message):
        JobPairs(np.array(kind), speed)

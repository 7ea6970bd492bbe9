"""Phases of batch sizes: what a run relies on."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.simulator.batches import Batches


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([(1, 0, 8, 1.0, 9), (0, 0, 8, 1.0, 9)], "not in the order of their jobs"),
        ([(0, 1, 8, 1.0, 9)], "first phase is not at epoch 0"),
        ([(0, 0, 8, 1.0, 9), (0, 0, 16, 1.0, 9)], "not in the order of their epochs"),
        ([(0, 0, 8, 0.0, 9)], "not above 0"),
        ([(0, 0, 8, 1.0, 9), (0, 2, 8, 1.0, 8)], "different samples"),
    ],
)
def test_phases_that_make_no_sense_are_refused(phases, message):
    with pytest.raises(DataError, match=message):
        Batches(*(np.array(column) for column in (*zip(*phases, strict=True), [0] * len(phases))))

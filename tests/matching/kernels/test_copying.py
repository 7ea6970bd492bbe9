"""Copies in kernels: as slices would do it, whatever the shape."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_calls import from_python

from mfcp.matching.kernels.copying import copy_row, copy_rows


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_row_is_copied(size: int) -> None:
    values, into = np.arange(1.0, size + 1), np.zeros(size)
    from_python(copy_row)(values, into)
    assert into.tolist() == values.tolist()
    assert not np.shares_memory(values, into)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 3)])
def test_rows_are_copied(shape: tuple[int, int]) -> None:
    values, into = np.random.default_rng(0).random(shape), np.zeros(shape)
    from_python(copy_rows)(values, into)
    assert into.tolist() == values.tolist()

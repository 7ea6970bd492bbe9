"""A compiled merge sort is NumPy's stable one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kernel_calls import from_python

from mfcp.arrays import Floats
from mfcp.matching.kernels.sorting import ascending

_sorted = from_python(ascending)


@given(arrays(np.float64, st.integers(0, 70), elements=st.sampled_from([-np.inf, -1.5, 0.0, 2.0, 7.25, np.inf])))
def test_equal_values_stay_in_their_order(values: Floats) -> None:
    np.testing.assert_array_equal(_sorted(values), np.argsort(values, kind="stable"))

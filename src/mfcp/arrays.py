"""The array types of the library: one name per element type, any shape; docstrings give the shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.str_]


def for_kernel(values: Floats) -> Floats:
    """As compiled code takes it: float64, contiguous, writable; copied where it is not. Else Numba would compile the
    same kernel once more, for many seconds.
    """
    return np.require(values, np.float64, ["C", "W"])


def read_only(values: Floats) -> Floats:
    """As compiled code takes what is too large to copy: contiguous, of its own type, to be read alone."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view

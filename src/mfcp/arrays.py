"""The array types of the library: one name per element type, any shape; docstrings give the shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.str_]


def for_kernel(values: Floats) -> Floats:
    """The values as a contiguous, writable array of float64; copied only where they are none.

    Numba compiles a kernel once more for an array of another kind, which takes seconds.
    """
    return np.require(values, np.float64, ["C", "W"])


def read_only(values: Floats) -> Floats:
    """A contiguous view that nobody can write to, for kernels that read what is too large to copy.

    Arrays of either kind become one kind by it, so that Numba compiles one kernel for each precision.
    """
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view

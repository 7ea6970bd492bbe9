# mypy: allow-untyped-defs, allow-untyped-decorators
"""Random numbers of compiled searches: a state that the caller owns, so that a round's draws are its own.

.. [Marsaglia2003] Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import kernel


@kernel(inline="always")
def xorshift(x):
    """The number after x, both np.uint64 above 0 [Marsaglia2003]_."""
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    return x ^ (x << np.uint64(17))


@kernel
def random_below(state, n):
    """A number in 0 … n - 1 from `state`, one np.uint64 above 0."""
    state[0] = x = xorshift(state[0])
    return np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))

# mypy: allow-untyped-defs, allow-untyped-decorators
"""Random numbers of compiled searches: a state that the caller owns, so that a round's draws are its own."""

from __future__ import annotations

import numpy as np

from mfcp.matching.kernels.compiling import kernel


@kernel
def random_below(state, n):
    """A number in 0 … n - 1 from `state`, one np.uint64 above 0; xorshift64."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))

"""Random numbers of compiled searches."""

import numpy as np

from mfcp.matching.kernels.random_numbers import random_below, xorshift


def test_it_is_marsaglias_generator():
    """The triple (13, 7, 17) of 64 bits, by plain Python integers."""
    x, mask = 88172645463325252, 2**64 - 1
    state = np.uint64(x)
    for _ in range(1000):
        x ^= (x << 13) & mask
        x ^= x >> 7
        x ^= (x << 17) & mask
        state = np.uint64(xorshift(state))
        assert int(state) == x


def test_numbers_below_a_bound_are_even_and_belong_to_their_state():
    state, other = np.array([12345], np.uint64), np.array([12345], np.uint64)
    drawn = [random_below(state, 7) for _ in range(70_000)]
    counts = np.bincount(drawn, minlength=7)
    assert len(counts) == 7
    assert abs(counts - 10_000).max() < 5 * 100
    assert [random_below(other, 7) for _ in range(50)] == drawn[:50]

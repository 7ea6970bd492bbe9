"""Arrays as compiled code takes them."""

import numpy as np
import pytest

from mfcp.arrays import for_kernel, read_only


@pytest.mark.parametrize(
    "given", [np.ones((2, 3), np.float32), np.ones((3, 2)).T, np.broadcast_to(1.0, (2, 3)), np.ones((2, 6))[:, ::2]]
)
def test_what_a_kernel_takes_is_contiguous_and_writable(given):
    taken = for_kernel(given)
    assert taken.dtype == np.float64
    assert taken.flags.c_contiguous
    assert taken.flags.writeable
    np.testing.assert_array_equal(taken, given)


def test_what_is_fine_is_not_copied():
    fine = np.ones((2, 3))
    assert for_kernel(fine) is fine


def test_what_is_read_alone_is_a_view_and_leaves_its_owner_writable():
    large = np.ones((2, 3), np.float32)
    view = read_only(large)
    assert np.shares_memory(view, large)
    assert (view.dtype, view.flags.writeable, large.flags.writeable) == (np.float32, False, True)

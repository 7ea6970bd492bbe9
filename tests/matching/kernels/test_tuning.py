"""What the constants of the relaxed solver are chosen for."""

import math
import sys

from mfcp.matching.kernels.tuning import ATTEMPTS, FAINT, LOWEST, USED


def test_the_least_price_and_its_root_are_normal_numbers():
    assert sys.float_info.min < math.exp(LOWEST)
    assert math.exp(LOWEST - 1) != math.exp(LOWEST)


def test_what_counts_as_zero_is_half_as_far_below_one_as_the_least_share():
    assert math.isclose(2 * math.log(FAINT), math.log(USED))
    assert sys.float_info.min < USED


def test_attempts_begin_cheap_and_start_in_both_ways():
    barriers, by_speed, refinements = zip(*ATTEMPTS, strict=True)
    assert list(barriers) == sorted(barriers, reverse=True)
    assert refinements[0] == min(refinements)
    assert set(by_speed) == {True, False}

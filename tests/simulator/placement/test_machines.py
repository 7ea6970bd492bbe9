"""Machines, and what tasks ask for."""

import numpy as np
import pytest

from mfcp.errors import DataError


def test_parts_of_several_accelerators_are_refused(requests):
    with pytest.raises(DataError, match="request 1: 2 accelerators at 500 thousandths"):
        requests([(1, 1, 1, 500), (1, 1, 2, 500)])


def test_usual_requests_ignore_memory_and_leave_the_rare_ones_out(requests):
    rows = [(1, m, 1, 500) for m in range(30)] + [(2, 1, 1, 500)]
    usual = requests(rows).usual
    assert usual.cpu.tolist() == [1000]
    assert usual.weight.tolist() == [1.0]


def test_the_tightest_accelerators_that_suffice(requests, machines):
    asked = requests([(1, 1, 1, 400)])
    full = machines([(9, 9, 3)], 1)
    full.take(asked, 0, 0, np.array([2]))
    assert full.tightest(0, 1, 500).tolist() == [2]
    assert full.tightest(0, 1, 700).tolist() == [0]
    assert full.tightest(0, 2, 1000).tolist() == [0, 1]


def test_what_fits_needs_cores_memory_and_accelerators_with_room(requests, machines):
    asked = requests([(4, 1, 0, 0), (5, 1, 0, 0), (1, 9, 0, 0), (1, 1, 2, 1000), (1, 1, 3, 1000)])
    assert machines([(4, 4, 2)], 5).fits(asked, 0).tolist() == [True, False, False, True, False]

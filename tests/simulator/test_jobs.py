"""Columns of jobs: filled in, checked, and taken in part."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.simulator.jobs import Jobs


def test_what_is_left_out_is_filled_in():
    jobs = Jobs.simple(np.array([0.0, 1.0]), np.array([1, 2]), np.array([5.0, 6.0]))
    assert jobs.deadline.tolist() == [np.inf, np.inf]
    assert (jobs.success == 1).all()
    assert jobs.service.tolist() == [5.0, 12.0]
    assert jobs.take(np.array([1])).id.tolist() == ["1"]


def test_columns_of_another_length_and_jobs_out_of_order_are_errors():
    with pytest.raises(DataError, match=r"jobs: deadline has \(1,\), expected \(2,\)"):
        Jobs.simple(np.zeros(2), np.ones(2), np.ones(2), deadline=np.ones(1))
    with pytest.raises(DataError, match="not in the order of their submission"):
        Jobs.simple(np.array([1.0, 0.0]), np.ones(2), np.ones(2))

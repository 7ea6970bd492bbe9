"""Measured steps of some of the tasks."""

import numpy as np
import pytest
from pydantic import ValidationError

from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings


def test_tasks_are_selected_by_index_or_mask():
    steps = MeasuredSteps(np.array([4, 2, 7]), np.arange(6.0).reshape(2, 3), np.arange(6.0, 12.0).reshape(2, 3))
    for chosen in (np.array([0, 2]), np.array([True, False, True])):
        some = steps.select(chosen)
        assert some.graph.tolist() == [4, 7]
        assert some.batch.tolist() == [[0, 2], [3, 5]]
        assert some.seconds.tolist() == [[6, 8], [9, 11]]


def test_settings_out_of_range_are_refused():
    for wrong in ({"dropout": 1.0}, {"roofline_share": 1.5}, {"unknown": 1}):
        with pytest.raises(ValidationError):
            TimingSettings(**wrong)

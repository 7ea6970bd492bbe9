"""The interval of Qore-DL's table draws what was left out, whole."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.qoredl import interval


def test_groups_are_drawn_whole() -> None:
    """Of two groups a quarter of the draws has the first alone, and a quarter the second."""
    groups = np.repeat([7, 9], [10, 2])
    model = np.where(groups == 7, 0.2, 0.6) + np.tile([-0.1, 0.1], 6)
    assert interval(model, np.full(12, 0.4), groups) == pytest.approx((3.2 / 4.8, 0.5, 1.5))

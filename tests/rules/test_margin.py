"""The margin rule is the point rule at another gamma."""

import numpy as np
import pytest
from rules.beliefs import belief

from mfcp.rules.margin import Margin
from mfcp.rules.point import Point


@pytest.mark.parametrize("parameter", [-0.04, 0.0, 0.05])
def test_its_parameter_is_added_to_gamma(parameter):
    plan = Margin().plan(belief(gamma=0.85), parameter=parameter, price=4.0)
    expected = Point().plan(belief(gamma=0.85 + parameter), parameter=0.0, price=4.0)
    np.testing.assert_array_equal(plan, expected)


def test_no_margin_is_among_its_candidates():
    assert 0.0 in Margin().candidates()
    assert Margin(grid=(0.1,)).candidates() == (0.1,)

"""Goals: met by a sure ratio, or by a mean surely under its share."""

import pytest

from mfcp.paper.results import met
from mfcp.paper.study_file import Goal

GOAL = Goal(text="", experiment="e", method="a", against="b", at_most=0.4)


@pytest.mark.parametrize(
    ("ratio", "beyond", "expected"),
    [
        ({"mean": 0.3, "p": 0.01}, None, True),
        ({"mean": 0.3, "p": 0.06}, None, False),
        ({"mean": 0.5, "p": 0.01}, None, False),
        (None, {"mean": -0.1, "p": 0.01}, True),
        (None, {"mean": -0.1, "p": 0.2}, False),
        (None, None, None),
    ],
)
def test_a_goal_is_met_by_a_sure_ratio_or_by_a_mean_surely_under_its_share(ratio, beyond, expected):
    assert met(GOAL, ratio, beyond) is expected

"""docs/results.md is what its JSON gives, and its figures are there."""

from pathlib import Path

import pytest

from mfcp.files import read_json
from mfcp.paper.figures import names
from mfcp.paper.page import page
from mfcp.paper.results import met
from mfcp.paper.study_file import Goal

DOCS = Path(__file__).parents[2] / "docs"
FOUND = DOCS / "results" / "paper.json"


def test_the_page_is_what_its_json_gives():
    results = read_json(FOUND)
    assert page(results) == (DOCS / "results.md").read_text(encoding="utf-8"), "run `mfcp paper --page`"
    for name in names(results):
        assert (FOUND.parent / name).read_bytes().startswith(b"\x89PNG"), f"{name} is missing: `mfcp paper --publish`"
        assert f"(results/{name})" in page(results)


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

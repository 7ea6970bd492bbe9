"""The page on what Qore-DL's parts bring is what its numbers give."""

import copy

import numpy as np
import pytest

from benchmarks.ablation import NUMBERS, PAGE, STAGES, SYSTEMS, difference, page
from mfcp.border.json_text import read_json


def test_the_page_is_generated():
    assert page(read_json(NUMBERS)) == PAGE.read_text(encoding="utf-8"), "run `python benchmarks/ablation.py --page`"


def test_changed_numbers_change_the_page():
    numbers = copy.deepcopy(read_json(NUMBERS))
    values = next(iter(numbers["found"].values()))["+ adjuster"]["deadlines_met"]
    values[:] = [value / 2 for value in values]
    assert page(numbers) != PAGE.read_text(encoding="utf-8")


def test_a_step_that_is_turned_round_is_told_so():
    numbers = copy.deepcopy(read_json(NUMBERS))
    for own in numbers["found"].values():
        own["+ adjuster"]["deadlines_met"], own["+ scheduler"]["deadlines_met"] = (
            own["+ scheduler"]["deadlines_met"], own["+ adjuster"]["deadlines_met"]
        )  # fmt: skip
    assert "- + adjuster over + scheduler: more at 1, 2, 3." in page(read_json(NUMBERS))
    assert "- + adjuster over + scheduler: fewer at 1, 2, 3." in page(numbers)


def test_steps_are_of_systems_that_are_there():
    assert {name for pair in STAGES for name in pair} <= set(SYSTEMS)


def test_a_difference_is_paired():
    base = np.array([1.0, 5.0, 9.0])
    assert difference(base + 0.5, base) == pytest.approx((0.5, 0.5, 0.5))

"""The page on the worth of durations is what its numbers give."""

import copy

from benchmarks.accuracy import NUMBERS, PAGE, page, ratios
from mfcp.border.json_text import read_json


def test_the_page_is_generated():
    numbers = read_json(NUMBERS)
    assert page(numbers) == PAGE.read_text(encoding="utf-8"), "run `python benchmarks/accuracy.py --page`"


def test_changed_numbers_change_the_page():
    numbers = copy.deepcopy(read_json(NUMBERS))
    srsf, _ = ratios(numbers, stretched=True)
    numbers["blocks"][1]["srsf_h"][-1] = [20 * hours for hours in numbers["blocks"][1]["srsf_h"][-1]]
    changed, _ = ratios(numbers, stretched=True)
    assert changed[0, -1] > 10 * srsf[0, -1]
    assert page(numbers) != PAGE.read_text(encoding="utf-8")

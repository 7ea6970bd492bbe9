"""docs/results.md and its figure are what the summary gives, and the page says what the summary holds."""

import copy
from pathlib import Path

import pytest

from mfcp.errors import DataError
from mfcp.files import read_json, write_json
from mfcp.paper.page import SUMMARY, page, write_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def summary():
    return read_json(DOCS / SUMMARY)


def test_the_page_is_what_its_summary_gives(summary):
    assert page(summary) == (DOCS / "results.md").read_text(encoding="utf-8"), "run `mfcp paper --page`"


def test_a_reader_finds_who_wins_in_the_first_paragraph_and_all_within_150_lines(summary):
    lines = page(summary).splitlines()
    best = summary["ratios"]["comparison"]["best"][0]
    assert f"{best['ratio']['mean']:.2f}" in " ".join(lines[2:6])
    assert len(lines) <= 150


def test_a_changed_number_changes_the_page(summary):
    changed = copy.deepcopy(summary)
    changed["ratios"]["comparison"]["rows"]["mfcp_x"][0]["mean"] += 0.25
    assert page(changed) != page(summary)


def test_a_goal_that_is_missed_is_marked_so(summary):
    changed = copy.deepcopy(summary)
    for goal in changed["goals"]:
        goal["met"] = False
    changed["speed"] = []
    assert " met |" not in page(changed)
    assert "**missed**" in page(changed)


def test_a_summary_of_another_version_is_an_error_that_names_the_file(summary, tmp_path):
    write_json(tmp_path / SUMMARY, {"study": summary["study"]})
    with pytest.raises(DataError, match=r"summary\.json: not a summary of this version .* run `make paper` again"):
        write_page(tmp_path)
    assert not (tmp_path / "results.md").exists()

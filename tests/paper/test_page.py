"""The results pages are what the summary gives, and say what it holds."""

import copy
from pathlib import Path

import pytest

from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.files import write_json
from mfcp.paper.page import BEGIN, END, SUMMARY, headline_table, page, with_table, write_pages
from mfcp.paper.tables_page import tables_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def summary():
    return read_json(DOCS / SUMMARY)


def test_the_pages_are_what_their_summary_gives(summary):
    told = "run `mfcp paper --page`"
    assert page(summary) == (DOCS / "results.md").read_text(encoding="utf-8"), told
    assert tables_page(summary) == (DOCS / "results" / "tables.md").read_text(encoding="utf-8"), told


def test_the_readme_opens_its_results_with_rows_of_the_same_table(summary):
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert with_table(readme, summary) == readme, "run `mfcp paper --page`"
    shown = readme.partition("## Results")[2].partition("\n## ")[0]
    assert "\n".join(headline_table(summary, short=True)) in shown
    assert set(headline_table(summary, short=True)) < set(headline_table(summary))


def test_a_readme_without_marks_stays_as_it_is(summary):
    assert with_table("# Hello\n", summary) == "# Hello\n"
    assert with_table(f"# Hello\n{BEGIN}\n", summary) == f"# Hello\n{BEGIN}\n"
    table = with_table(f"a\n{BEGIN}\nearlier table\n{END}\nb\n", summary)
    assert table.startswith(f"a\n{BEGIN}\n\n|")
    assert table.endswith(f"|\n\n{END}\nb\n")
    assert "earlier table" not in table


def test_a_reader_finds_metric_table_sentences_and_figure_in_that_order_within_150_lines(summary):
    text = page(summary)
    first = summary["headline"]["rows"][-1]["cells"][0]["ratio"]
    places = [
        text.index(f"plus {summary['study']['price']:g} times"),
        text.index(f"{first['mean']:.2f} ["),
        text.index("ratios.png"),
        text.index("no significant difference on" if "no significant difference on" in text else "less on"),
        text.index("errors.png"),
    ]
    assert places == sorted(places)
    assert len(text.splitlines()) <= 150


def test_a_changed_number_changes_the_pages(summary):
    changed = copy.deepcopy(summary)
    changed["headline"]["rows"][-1]["cells"][0]["ratio"]["mean"] += 0.25
    changed["ratios"]["comparison"]["rows"]["mfcp_x"][0]["mean"] += 0.25
    assert page(changed) != page(summary)
    assert tables_page(changed) != tables_page(summary)


def test_no_table_is_empty_and_every_number_of_a_method_has_one(summary):
    for text in (page(summary), tables_page(summary)):
        lines = text.splitlines()
        for k, line in enumerate(lines):
            if line.startswith("|---"):
                below = lines[k + 1] if k + 1 < len(lines) else ""
                assert below.startswith("| "), f"nothing below {lines[k - 1]}"
    for experiment in summary["ratios"].values():
        section = tables_page(summary).partition(f"\n## {experiment['title']}\n")[2].partition("\n## ")[0]
        assert all(f"`{label}`" in section for label in experiment["rows"] if label != "tsm")


def test_a_goal_that_is_missed_is_marked_so(summary):
    changed = copy.deepcopy(summary)
    for goal in changed["goals"]:
        goal["met"] = False
    changed["speed"] = []
    assert " met |" not in tables_page(changed)
    assert "**missed**" in tables_page(changed)
    assert f"0 of {len(changed['goals'])} comparisons" in page(changed)


def test_a_summary_of_another_version_is_an_error_that_names_the_file(summary, tmp_path):
    write_json(tmp_path / SUMMARY, {"study": summary["study"]})
    with pytest.raises(DataError, match=r"summary\.json: not a summary of this version .* run `make paper` again"):
        write_pages(tmp_path)
    assert not (tmp_path / "results.md").exists()

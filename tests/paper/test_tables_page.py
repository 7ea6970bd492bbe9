"""The second page: every experiment's table, the errors, and what was looked at."""

from pathlib import Path

import pytest

from mfcp.border.json_text import read_json
from mfcp.paper.page import SUMMARY
from mfcp.paper.tables_page import tables_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def summary():
    return read_json(DOCS / SUMMARY)


def test_every_experiment_and_what_was_looked_at_have_a_place(summary):
    text = tables_page(summary)
    for experiment in summary["ratios"].values():
        assert f"\n## {experiment['title']}\n" in text
    for each in summary["looked_at"]:
        assert f"| {each['at']} | {each['times']} |" in text


def test_errors_stand_beside_methods(summary):
    row = next(line for line in tables_page(summary).partition("## Errors")[2].splitlines() if "`mfcp_x`" in line)
    log = next(iter(summary["errors"]))
    assert f"| {summary['errors'][log]['mfcp_x']['log_time_rms']:.3f} |" in row


def test_a_log_of_few_families_is_said_to_be_split_otherwise(summary):
    for name, data in summary["data"].items():
        row = next(line for line in tables_page(summary).splitlines() if line.startswith(f"| {name} | {data['tasks']}"))
        assert ("source task" in row) == (data["families"] < 12)

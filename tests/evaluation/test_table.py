"""The comparison table of a real, small comparison."""

import pytest

from mfcp.evaluation.table import COLUMNS, cells, markdown, show

pytestmark = pytest.mark.xdist_group("report")  # one worker makes what they share


def test_tables_show_every_method_with_its_interval(compared, capsys):
    summary = compared[0]
    for row in cells(summary, "pooled"):
        assert len(row) == len(COLUMNS) + 1
    show(summary, everything=True)
    printed = capsys.readouterr().out
    for label in ("tsm_log_bayes", "mfcp_ad", "setting A", "setting B", "pooled"):
        assert label in printed
    value = summary["pooled"]["mfcp_ad"]["penalised_excess"]
    assert f"{value['mean']:.4f} [{value['ci_low']:.4f}, {value['ci_high']:.4f}]" in markdown(summary)


def test_what_has_no_value_or_interval_is_no_number():
    bare = {"mean": 0.5, "std": None, "ci_low": None, "ci_high": None, "n": 1}
    summary = {"A": {"tsm": {"penalised_excess": bare, "regret": bare | {"mean": None}}}}
    row = dict(zip([title for title, *_ in COLUMNS], cells(summary, "A")[0][1:], strict=True))
    assert row["penalised excess"] == "0.5000"
    assert row["regret [s/task]"] == row["ratio to TSM"] == "-"

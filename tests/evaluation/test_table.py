"""The comparison table of a real, small comparison."""

import pytest

from mfcp.evaluation.table import COLUMNS, cells, markdown, sample, show, verdict

pytestmark = pytest.mark.xdist_group("report")  # one worker makes what they share


def test_tables_show_every_method_with_its_interval(compared, capsys):
    summary = compared[0]
    for row in cells(summary, "pooled"):
        assert len(row) == len(COLUMNS) + 1
    show(summary, everything=True)
    printed = capsys.readouterr().out
    for label in ("tsm_log_bayes", "mfcp_ad", "setting A", "setting B", "has the least excess"):
        assert label in printed
    assert max(map(len, printed.splitlines())) <= 80
    value = summary["pooled"]["mfcp_ad"]["penalised_excess"]
    assert f"{value['mean']:.3f} [{value['ci_low']:.3f}, {value['ci_high']:.3f}]" in markdown(summary)
    show(summary, wide=True)
    wide = capsys.readouterr().out
    assert all(title.split()[0] in wide for title, *_ in COLUMNS)


def test_what_has_no_value_or_interval_is_no_number():
    bare = {"mean": 0.5, "std": None, "ci_low": None, "ci_high": None, "n": 1}
    summary = {"A": {"tsm": {"penalised_excess": bare, "regret": bare | {"mean": None}}}}
    row = dict(zip([title for title, *_ in COLUMNS], cells(summary, "A")[0][1:], strict=True))
    assert row["penalised excess"] == "0.500"
    assert row["regret [s/task]"] == row["ratio to TSM"] == "-"


def method(mean, low, high):
    return {"vs_tsm": {"mean": mean, "ci_low": low, "ci_high": high, "n": 5}}


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ({"a": (0.5, 0.4, 0.6), "b": (0.9, 0.8, 1.0)}, "a has the least excess: 0.50 [0.40, 0.60] of that of tsm. No"),
        ({"a": (0.5, 0.4, 0.6), "b": (0.7, 0.55, 0.9)}, "b may be as good: the intervals overlap."),
        ({"a": (0.9, 0.7, 1.1)}, "of that of tsm, which is no significant difference."),
        ({"a": (0.9, None, None)}, "one seed gives no interval"),
        ({"a": (7.5, 4.0, 60.8)}, "No method has less excess than tsm; a comes next with 7.50 [4.00, 60.80] of it."),
        ({"a": (1.5, None, None), "b": (3.0, None, None)}, "than tsm; a comes next with 1.50 of it."),
    ],
)
def test_the_verdict_is_as_sure_as_the_intervals(ratios, said):
    assert said in verdict({"tsm": method(1, 1, 1)} | {label: method(*value) for label, value in ratios.items()})
    assert verdict({"tsm": method(1, 1, 1)}) == ""


@pytest.mark.parametrize(
    ("settings", "n", "said"),
    [
        (("A", "B", "C", "pooled"), 15, "15 pairs of setting and seed"),
        (("A", "B", "C", "pooled"), 3, "3 settings with one seed, that is, one split of the tasks: what another would"),
        (("A",), 5, "5 seeds"),
    ],
)
def test_what_means_are_over_and_what_they_cannot_tell(settings, n, said):
    summary = {name: {"tsm": {"penalised_excess": {"mean": 1.0, "n": n}}} for name in settings}
    assert sample(summary).startswith(said)

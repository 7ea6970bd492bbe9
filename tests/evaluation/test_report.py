"""What people look at: tables and figures of a real, small comparison."""

import json

import pytest

from mfcp.evaluation import plots
from mfcp.evaluation.report import write_figures, write_tables

pytestmark = pytest.mark.xdist_group("report")  # one worker makes what they share


def test_summary_is_plain_json_with_the_contracts_shape(compared):
    summary = json.loads(json.dumps(compared[0], allow_nan=False))
    assert set(summary) == {"A", "B", "pooled"}
    for methods in summary.values():
        for metrics in methods.values():
            for name, value in metrics.items():
                tested = {"p"} if name in ("vs_tsm", "regret_vs_tsm", "minus_tsm") else set()
                assert set(value) == {"mean", "std", "ci_low", "ci_high", "n"} | tested
    names = set(summary["A"]["mfcp_ad"])
    contract = {"regret", "relative_regret", "penalised_excess", "regret_equal_violation", "regret_equal_shortfall",
                "reliability", "violation_rate", "shortfall", "utilization", "vs_tsm"}  # fmt: skip
    assert contract <= names


def test_same_numbers_same_bytes(compared, tmp_path):
    summary, history = compared
    for folder in (tmp_path / "one", tmp_path / "two"):
        write_figures(summary, folder)
        plots.curves(history, folder / "training.png")
        write_tables(summary, folder / "comparison.md", ["Emulated, not measured: samples."])
    names = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert names == ["comparison.md", "metrics.png", "ratios.png", "training.png"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        assert (tmp_path / "one" / name).stat().st_size > 200
    assert "Emulated" in (tmp_path / "one" / "comparison.md").read_text()

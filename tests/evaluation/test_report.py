"""What people look at: tables and figures of a real, small comparison."""

import json

import pytest
from toy import toy_study

from mfcp.evaluation import plots
from mfcp.evaluation.compare import summarise
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.evaluation.report import write_figures, write_tables
from mfcp.evaluation.table import COLUMNS, cells, markdown, show
from mfcp.methods.base import FinetuneSettings, Method, register_members
from mfcp.methods.pretrain import PretrainSettings, pretrain
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.linear import Linear
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings

pytestmark = pytest.mark.xdist_group("report")  # one worker makes what they share


@pytest.fixture(scope="module")
def compared():
    register_members()
    import pandas as pd

    study = toy_study()
    tables, history = [], {}
    for name in study.settings:
        setting = solved_setting(study, name, RoundSettings(tasks=3, validation_rounds=20), price=4.0)
        base = pretrain(setting, PretrainSettings(predictor=Linear(), training=HeadTraining(epochs=20)))
        models = {
            "tsm": Method.parse({"kind": "two_stage", "loss": "time"}),
            "mfcp_ad": Method.parse("decision_focused"),
            "tsm_log_bayes": Method.parse({"kind": "two_stage", "rule": "expected_cost"}),
        }
        trained = {
            k: m.fit(setting, base, FinetuneSettings(steps=4, rounds=4, check_every=2)) for k, m in models.items()
        }
        tables.append(evaluate(setting, trained, EvaluateSettings(rounds=20)))
        history |= {f"{name}/{k}": t.history for k, t in trained.items()}
    return summarise(*(pd.concat(part) for part in zip(*tables, strict=True)), bootstrap=100), history


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


def test_same_numbers_same_bytes(compared, tmp_path):
    summary, history = compared
    for folder in (tmp_path / "one", tmp_path / "two"):
        write_figures(summary, folder)
        plots.curves(history, folder / "training.png")
        write_tables(summary, folder / "comparison.md", ["Emulated, not measured: samples."])
    names = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert names == ["bars.png", "comparison.md", "ratios.png", "training.png"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        assert (tmp_path / "one" / name).stat().st_size > 200
    assert "Emulated" in (tmp_path / "one" / "comparison.md").read_text()


def test_figures_show_what_they_are_given(compared):
    import matplotlib.pyplot as plt

    summary, _ = compared
    drawn = []
    original = plots.save
    try:
        plots.save = lambda figure, path: drawn.append(figure)
        plots.ratios(summary, None)
    finally:
        plots.save = original
    axis = drawn[0].axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["mfcp_ad", "tsm_log_bayes"]
    pooled = next(line for line in axis.lines if line.get_marker() == "D").get_xdata()
    assert list(pooled) == [summary["pooled"][m]["vs_tsm"]["mean"] for m in ("mfcp_ad", "tsm_log_bayes")]
    plt.close(drawn[0])

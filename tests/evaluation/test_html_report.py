"""The report: what it says, that it needs nothing else, and what it refuses."""

import json
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from mfcp.errors import DataError
from mfcp.evaluation.compare import summarise
from mfcp.evaluation.html_report import render, write_report
from mfcp.evaluation.metrics import per_seed
from mfcp.evaluation.report import write_figures

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Counts that tags close, and gathers text, attributes and headings."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.links, self.tags = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def rounds():
    rng, rows = np.random.default_rng(0), []
    for setting in "AB":
        for seed in range(3):
            level = rng.gamma(2.0, 0.1, 40)
            for method, factor in (("tsm", 1.0), ("<b>ours", 0.4)):
                excess = factor * level * np.exp(rng.normal(0, 0.05, 40))
                rows.append(pd.DataFrame({
                    "setting": setting, "method": method, "seed": seed, "round": range(40), "penalised_excess": excess,
                    "regret": excess, "makespan": 1.0 + excess, "optimal_makespan": 1.0, "reliability": 0.9,
                    "violation_rate": 0.0, "shortfall": 0.0, "utilization": 0.7,
                    "makespan_equal_violation": 1.0 + excess, "makespan_equal_shortfall": 1.0 + excess,
                }))  # fmt: skip
    return pd.concat(rows, ignore_index=True)


@pytest.fixture
def summary(rounds):
    return summarise(rounds, per_seed(rounds), bootstrap=200)


def test_a_report_is_whole_and_needs_nothing_else(rounds, summary):
    pool = {"tasks": 12, "filled_share": 0.25, "emulated": ["runs"], "notes": ["a note"], "settings": {"A": ["x", "y"]}}
    text = render(summary, rounds, pool)
    page = Page(text)
    told = " ".join(" ".join(page.text).split())
    assert "<b>ours has the least excess: 0.4" in told
    assert "<b>" not in text  # names are text, not tags
    assert "Emulated log: its runs never took place." in told
    assert "The plan of <b>ours costs less in 100%, the same in 0%, more in 0% of the rounds." in told
    assert "a note" in told
    assert page.tags.count("svg") == 2
    assert [link for link in page.links if not link.startswith("#")] == []
    assert "url(http" not in text
    assert "script" not in page.tags
    assert len(text) < 1_000_000
    assert text == render(summary, rounds, pool)


def test_a_comparison_without_a_baseline_has_no_verdict_and_no_figures(rounds):
    alone = rounds[rounds["method"] != "tsm"]
    page = Page(render(summarise(alone, per_seed(alone), bootstrap=200), alone, {}))
    assert "svg" not in page.tags
    assert "has the least excess" not in " ".join(page.text)


def without_excess(rounds, *settings):
    """The baseline's plans are the best ones in some settings."""
    rounds = rounds.copy()
    perfect = rounds["setting"].isin(settings) & (rounds["method"] == "tsm")
    rounds.loc[perfect, "penalised_excess"] = 0.0
    return rounds


def test_a_setting_in_which_the_baseline_is_perfect_has_no_ratio_but_a_place(rounds, tmp_path):
    rounds = without_excess(rounds, "A")
    summary = summarise(rounds, per_seed(rounds), bootstrap=200)
    assert "vs_tsm" not in summary["A"]["<b>ours"]
    page = Page(render(summary, rounds, {}))
    assert page.tags.count("svg") == 2
    assert "<b>ours has the least excess: 0." in " ".join(" ".join(page.text).split())
    write_figures(summary, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.png", "ratios.png"}


def test_a_baseline_that_is_perfect_everywhere_is_told(rounds, tmp_path):
    rounds = without_excess(rounds, "A", "B")
    summary = summarise(rounds, per_seed(rounds), bootstrap=200)
    page = Page(render(summary, rounds, {}))
    assert "svg" not in page.tags
    told = " ".join(" ".join(page.text).split())
    assert "There is no ratio: tsm has no excess, its plan is the best one in every round." in told
    write_figures(summary, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.png"]


def test_a_method_that_is_perfect_is_on_the_axis_and_one_seed_has_no_interval(rounds, tmp_path):
    rounds = rounds[(rounds["setting"] == "A") & (rounds["seed"] == 0)].copy()
    rounds.loc[rounds["method"] != "tsm", "penalised_excess"] = 0.0
    summary = summarise(rounds, per_seed(rounds), bootstrap=200)
    assert summary["A"]["<b>ours"]["vs_tsm"]["mean"] == 0
    assert Page(render(summary, rounds, {})).tags.count("svg") == 2
    write_figures(summary, tmp_path)
    assert (tmp_path / "ratios.png").exists()


def test_what_is_missing_is_told(tmp_path, rounds, summary):
    with pytest.raises(DataError, match=r"no metrics\.json; give a folder that `mfcp benchmark` or the pipeline"):
        write_report(tmp_path, tmp_path / "r.html")
    (tmp_path / "metrics.json").write_text(json.dumps(summary))
    rounds.drop(columns="reliability").to_parquet(tmp_path / "rounds.parquet")
    with pytest.raises(DataError, match=r"metrics\.json and rounds\.parquet are not of one comparison"):
        write_report(tmp_path, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
    rounds.to_parquet(tmp_path / "rounds.parquet")
    whole = (tmp_path / "rounds.parquet").read_bytes()
    (tmp_path / "rounds.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"rounds\.parquet: not a whole Parquet file"):
        write_report(tmp_path, tmp_path / "r.html")
    (tmp_path / "rounds.parquet").write_bytes(whole)
    write_report(tmp_path, tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size > 10_000


def test_predictions_plans_and_optima_are_shown_where_they_are_known(rounds, summary):
    """The best method's plans alone, first those that gain, then those that lose."""
    own = {"factor": 1.4, "factor_95": 6.0, "inside": 0.9, "reliability_rms": 0.1, "calibration": [(0.5, 0.6)]}
    plan = {"cluster": [0, 1], "seconds": [10.0, 30.0], "reliability": 0.9}
    shown = [
        {"seed": k, "round": k, "gain": gain, "gamma": 0.9, "baseline": plan, "method": plan}
        for k, gain in enumerate((0.1, 0.7, 0.4, -0.2, -0.6, -0.3))
    ]
    details = {
        name: {
            "clusters": ["<i>x", "y"], "predictions": {"tsm": own, "<b>ours": {**own, "inside": None}},
            "examples": {"<b>ours": shown if name == "A" else []},
            "solver": {"engine": "enumerate", "rounds": 50, "proven": 0.9, "short": 0.1},
        }
        for name in "AB"
    }  # fmt: skip
    text = render(summary, rounds, {"tasks": 30}, details)
    page = Page(text)
    told = " ".join(page.text)
    titles = [line for line in page.text if line.startswith("Setting A, seed")]
    assert [title.split(":")[0][-1] for title in titles] == ["1", "2", "5", "4"]
    assert "90% of 50 rounds proven optimal by 'enumerate', 10% cannot reach gamma" in told
    assert "× 1.40" in told
    assert "none stated" in told
    assert "<i>x" not in text
    assert page.tags.count("svg") == 2 + 2 + 4
    alone = {name: {**found, "examples": {}} for name, found in details.items()}
    text = render({name: {"tsm": own["tsm"]} for name, own in summary.items()}, rounds, {}, alone)
    assert Page(text).tags.count("svg") == 2  # without a baseline there is nothing to compare

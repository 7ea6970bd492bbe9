"""The summary of a study: what the page needs, from paper.json alone."""

import pytest

from mfcp.paper.results import HELD_OUT
from mfcp.paper.summary import RATIO, held_out_or_all, summarise_study

RATIOS = {"mean": 0.5, "ci_low": 0.4, "ci_high": 0.6, "p": 0.01, "std": 0.1, "n": 12}


def results():
    three = {name: {"mean": 2.0, "std": 0.5} for name in ("regret", "reliability", "utilization")}
    tables = {"A": {}, "pooled": {}, HELD_OUT: {"mfcp_x": {RATIO: RATIOS, **three}, "tsm": {**three}}}
    entry = {
        "data": "default", "value": None, "missing": [], "tables": tables, "best": {"ours": "mfcp_x"},
        "best_ratios": {"penalised_excess": {HELD_OUT: RATIOS}},
        "chosen_on": {"mfcp_x": 0.2, "tsm": 0.1}, "errors": {HELD_OUT: {"tsm": {"log_time_rms": 0.3}}},
        "findings": [{"ratios": {HELD_OUT: RATIOS}}],
    }  # fmt: skip
    later = entry | {"tables": {"G": {}, HELD_OUT: {"mfcp_ad": {RATIO: RATIOS, **three}}}, "data": "gavel"}
    goal = dict.fromkeys(("text", "experiment", "data", "value", "metric", "method", "at_most", "p_below"), 1)
    goal |= {"against": "tsm", "met": True, "ratios": {HELD_OUT: RATIOS}, "beyond": {}}
    pool = {"tasks": 9, "source_tasks": 8, "families": 3, "clusters": 4, "emulated": ["samples"], "seconds": {"min": 1}}
    return {
        "study": {"baselines": ["tsm"], "ours": ["mfcp_x"], "held_out": {"families": 0.25, "named": {}}},
        "example": {}, "deviations": [], "speed": [],
        "cpu_seconds": 1.5, "environment": {}, "goals": [goal], "data": {"default": {"pool": pool, "settings": ["A"]}},
        "headline": {
            "experiment": "unseen", "rows": {"plain": ["tsm"], "best": ["mfcp_x", "tsm"]},
            "follows": [{"text": "it is {ratios}"}], "metrics_of": "comparison",
            "parts": {"processes": {"price": "tsm", "expected": "mfcp_x"}},
        },
        "looked_at": [], "retired": [],
        "experiments": {
            "comparison": {
                "title": "", "about": "", "swept": None, "changes": {}, "figure": ["tam"], "settings": ["A"],
                "entries": [entry, later], "paper_metrics": True, "printed": {"tsm": [[2.0, None]]},
            },
            "unseen": {
                "title": "", "about": "", "swept": None, "changes": {}, "figure": [], "settings": ["G"],
                "entries": [entry], "paper_metrics": False, "printed": {},
            },
        },
    }  # fmt: skip


def test_rows_have_a_cell_per_column_and_only_what_the_page_shows_of_each():
    found = summarise_study(results())["ratios"]["comparison"]
    shown = {key: RATIOS[key] for key in ("mean", "ci_low", "ci_high", "p")}
    assert found["rows"] == {"mfcp_x": [shown, None], "tsm": [None, None], "mfcp_ad": [None, shown]}
    assert len(found["columns"]) == len(found["best"]) == 2


def test_the_papers_metrics_are_kept_of_experiments_that_show_them():
    found = summarise_study(results())["metrics"]
    assert list(found) == ["comparison"]
    assert found["comparison"]["rows"]["mfcp_x"] == [[[2.0, 0.5]] * 3, None]
    assert found["comparison"]["rows"]["mfcp_ad"] == [None, [[2.0, 0.5]] * 3]
    assert found["comparison"]["printed"] == {"tsm": [[2.0, None]]}


def test_predictors_and_rules_have_a_cell_each():
    (row,) = summarise_study(results())["headline"]["parts"]
    assert (row["log"], row["predictors"]) == ("default", "processes")
    assert [row["cells"][rule]["mean"] for rule in ("price", "expected")] == [1.0, RATIOS["mean"]]


def test_held_out_settings_count_where_there_are_some():
    tables = results()["experiments"]["comparison"]["entries"][0]["tables"]
    assert held_out_or_all(tables) is tables[HELD_OUT]
    assert held_out_or_all({"pooled": 1}) == 1
    with pytest.raises(KeyError):
        summarise_study({key: value for key, value in results().items() if key != "goals"})


def test_the_first_table_takes_the_best_of_several_methods_where_methods_are_chosen():
    headline = summarise_study(results())["headline"]
    plain, best = (row["cells"][0] for row in headline["rows"])
    assert plain == best == {"label": "tsm", "ratio": {"mean": 1.0, "ci_low": None, "ci_high": None}}
    assert headline["follows"][0]["ratios"]["default"]["mean"] == RATIOS["mean"]
    assert headline["logs"] == ["default"]


def test_logs_of_few_families_are_split_by_source_task():
    data = summarise_study(results())["data"]["default"]
    assert data["split_by"] == "source task"
    assert data["held_out"] == {"tested": 2, "groups": 8, "kind": "source tasks"}

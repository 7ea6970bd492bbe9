"""The summary of a study: what the page needs, from paper.json alone."""

import pytest

from mfcp.paper.results import HELD_OUT
from mfcp.paper.summary import RATIO, held_out_or_all, summarise_study

RATIOS = {"mean": 0.5, "ci_low": 0.4, "ci_high": 0.6, "p": 0.01, "std": 0.1, "n": 12}


def results():
    tables = {"A": {}, "pooled": {}, HELD_OUT: {"mfcp_x": {RATIO: RATIOS}, "tsm": {}}}
    entry = {
        "data": "default", "value": None, "missing": [], "tables": tables, "best": {"ours": "mfcp_x"},
        "best_ratios": {"penalised_excess": {HELD_OUT: RATIOS}},
        "chosen_on": {"mfcp_x": 0.2, "tsm": 0.1}, "errors": {HELD_OUT: {"tsm": {"log_time_rms": 0.3}}},
        "findings": [{"ratios": {HELD_OUT: RATIOS}}],
    }  # fmt: skip
    later = entry | {"tables": {"G": {}, HELD_OUT: {"mfcp_ad": {RATIO: RATIOS}}}, "data": "gavel"}
    goal = dict.fromkeys(("text", "experiment", "data", "value", "metric", "method", "at_most", "p_below"), 1)
    goal |= {"against": "tsm", "met": True, "ratios": {HELD_OUT: RATIOS}, "beyond": {}}
    pool = {"tasks": 9, "families": 3, "clusters": 4, "emulated": ["samples"], "seconds": {"min": 1}}
    return {
        "study": {"baselines": ["tsm"], "ours": ["mfcp_x"], "rounds": 5}, "example": {}, "deviations": [], "speed": [],
        "cpu_seconds": 1.5, "environment": {}, "goals": [goal], "data": {"default": {"pool": pool, "settings": ["A"]}},
        "headline": {
            "experiment": "unseen", "rows": {"plain": ["tsm"], "best": ["mfcp_x", "tsm"]},
            "follows": [{"text": "it is {ratios}"}],
        },
        "looked_at": [],
        "experiments": {
            "comparison": {
                "title": "", "swept": None, "changes": {}, "figure": ["tam"], "entries": [entry, later],
            },
            "unseen": {"title": "", "swept": None, "changes": {}, "figure": [], "entries": [entry]},
        },
    }  # fmt: skip


def test_rows_have_a_cell_per_column_and_only_what_the_page_shows_of_each():
    found = summarise_study(results())["ratios"]["comparison"]
    shown = {key: RATIOS[key] for key in ("mean", "ci_low", "ci_high", "p")}
    assert found["rows"] == {"mfcp_x": [shown, None], "tsm": [None, None], "mfcp_ad": [None, shown]}
    assert len(found["columns"]) == len(found["best"]) == 2


def test_the_figure_draws_each_method_that_is_compared_once():
    assert summarise_study(results())["study"]["figure"] == ["tam", "tsm", "mfcp_x"]
    assert summarise_study(results())["data"]["default"]["tasks"] == 9


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
    assert headline["settings"] == ["A"]


def test_logs_of_few_families_are_split_by_source_task():
    assert summarise_study(results())["data"]["default"]["split_by"] == "source task"

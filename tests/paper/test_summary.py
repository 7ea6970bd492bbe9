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
    }  # fmt: skip
    later = entry | {"tables": {HELD_OUT: {"mfcp_ad": {RATIO: RATIOS}}}}
    goal = dict.fromkeys(("text", "experiment", "data", "value", "metric", "method", "at_most", "p_below"), 1)
    goal |= {"against": "tsm", "met": True, "ratios": {HELD_OUT: RATIOS}, "beyond": {}}
    pool = {"tasks": 9, "families": 3, "clusters": 4, "emulated": ["samples"], "seconds": {"min": 1}}
    return {
        "study": {"baselines": ["tsm"], "ours": ["mfcp_x"], "rounds": 5}, "example": {}, "deviations": [], "speed": [],
        "cpu_seconds": 1.5, "environment": {}, "goals": [goal], "data": {"default": {"pool": pool, "settings": ["A"]}},
        "experiments": {
            "comparison": {
                "title": "", "swept": None, "changes": {}, "figure": ["tam"], "entries": [entry, later],
            },
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

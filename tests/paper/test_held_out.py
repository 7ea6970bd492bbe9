"""Clusters held out for good: no table has a row of theirs for what is developed, and the last test none of others."""

import pandas as pd
import pytest

from mfcp.paper.held_out import HeldOut, of_clusters

TABLES = {
    "tasks": pd.DataFrame({"task_id": ["a", "b"]}),
    "clusters": pd.DataFrame({"cluster_id": ["x", "y", "z"]}),
    "runs": pd.DataFrame({"run_id": ["1", "2", "3"], "task_id": ["a", "a", "b"], "cluster_id": ["z", "x", "y"]}),
    "truth": pd.DataFrame({"task_id": ["a", "b"], "cluster_id": ["x", "y"], "time_s": [1.0, 2.0]}),
}


@pytest.mark.parametrize("names", [["x"], ["z", "x"], ["x", "a cluster of another log"]])
def test_the_two_parts_of_a_log_have_every_row_of_a_cluster_once(names):
    alone, others = (of_clusters(TABLES, names, kept=kept) for kept in (True, False))
    for name, table in TABLES.items():
        if name == "tasks":
            assert alone[name].equals(table)
            assert others[name].equals(table)
            continue
        assert set(alone[name]["cluster_id"]) <= set(names)
        assert not set(others[name]["cluster_id"]) & set(names)
        both = pd.concat([alone[name], others[name]]).sort_values(list(table), ignore_index=True)
        assert both.equals(table.sort_values(list(table), ignore_index=True))
    assert alone["clusters"].index.equals(pd.RangeIndex(len(alone["clusters"])))


@pytest.mark.parametrize("kept", [True, False])
def test_a_log_without_these_clusters_is_whole(kept):
    assert of_clusters(TABLES, ["w"], kept=kept) is TABLES


def test_settings_of_a_draw_follow_those_of_the_draw_before():
    held = HeldOut(families=0.2, draws=3, seeds=1, settings=2)
    assert held.letters(6) == tuple("GHIJKL")
    assert [held.letters(6, draw) for draw in range(3)] == [("G", "H"), ("I", "J"), ("K", "L")]
    assert held.of("a log that is not named").clusters == ()

"""Captured models in a folder of logs: added whole or not at all, and read with their constraints."""

import multiprocessing
import os
from dataclasses import replace

import pandas as pd
import pytest
from graphs_by_hand import tables

from mfcp.data.log.captured import Model, add_model, read_graphs
from mfcp.errors import DataError
from mfcp.tasks.capture.scaling import Captured


def model(name="net", graph="g"):
    nodes, edges = tables(["mm", "relu"], [(0, 1)], graph)
    return Model(name, Captured(nodes.assign(dtype="float32"), edges, batch=1, only=""), None, None, batch=8)


def test_a_model_is_added_beside_the_others_and_replaced_only_when_asked(tmp_path):
    add_model(tmp_path, model(), replace=False)
    add_model(tmp_path, model("other", "h"), replace=False)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(DataError, match="'g' is there already; pass --force"):
        add_model(tmp_path, model(), replace=False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    add_model(tmp_path, model("renamed"), replace=True)
    tasks = pd.read_parquet(tmp_path / "tasks.parquet").set_index("task_id")
    assert tasks["model"].to_dict() == {"g": "renamed", "h": "other"}
    assert len(read_graphs(tmp_path)["nodes"]) == 4


def test_a_row_that_breaks_a_constraint_is_named(tmp_path):
    nodes, edges = tables(["mm", "relu"], [(0, 1)], "g")
    nodes.assign(flops=[1.0, -2.0]).to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    with pytest.raises(DataError, match=r"nodes\.csv: row 2, flops is '-2.0', expected .*\(1 bad rows\)"):
        read_graphs(tmp_path)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        read_graphs(tmp_path / "none")
    with pytest.raises(DataError, match="no table 'nodes'"):
        read_graphs(tmp_path)


def test_a_killed_call_is_made_good_by_the_next_one(tmp_path, monkeypatch):
    """Killed before each of its renames: a valid log without the task, which the same call again adds."""
    replace, left = os.replace, 0

    def killed(*paths):
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        replace(*paths)

    for before in range(3):
        folder = tmp_path / str(before)
        add_model(folder, model("old", "old"), replace=False)
        monkeypatch.setattr(os, "replace", killed)
        left = before
        with pytest.raises(KeyboardInterrupt):
            add_model(folder, model("new", "new"), replace=False)
        monkeypatch.undo()
        assert pd.read_parquet(folder / "tasks.parquet")["task_id"].tolist() == ["old"]
        add_model(folder, model("new", "new"), replace=False)
        assert pd.read_parquet(folder / "tasks.parquet")["task_id"].tolist() == ["old", "new"]
        assert pd.read_parquet(folder / "nodes.parquet")["graph_id"].value_counts().nunique() == 1
        with pytest.raises(DataError, match="'new' is there already; pass --force"):
            add_model(folder, model("new", "new"), replace=False)


def test_what_a_killed_call_leaves_ends_in_the_bytes_of_one_that_was_not(tmp_path):
    """Columns beyond the schema stand between its own as they are made, and after them as they are read."""
    one = model()
    one = replace(one, forward=replace(one.forward, nodes=one.forward.nodes.assign(part="forward", once=0)))
    for folder in (tmp_path / "whole", tmp_path / "killed"):
        add_model(folder, one, replace=False)
    (tmp_path / "killed/tasks.parquet").unlink()  # it is written last
    add_model(tmp_path / "killed", one, replace=False)
    for name in ("nodes.parquet", "edges.parquet", "tasks.parquet"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_graph_without_a_task_is_not_replaced_unasked(tmp_path):
    """It may be all that somebody has; only what the same capture left behind is."""
    nodes, edges = tables(["conv", "relu"], [(0, 1)], "new")
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    before = (tmp_path / "nodes.csv").read_bytes()
    with pytest.raises(DataError, match="'new' is there already; pass --force"):
        add_model(tmp_path, model("new", "new"), replace=False)
    assert (tmp_path / "nodes.csv").read_bytes() == before


def add(folder, name):
    add_model(folder, model(name, name), replace=False)


def test_writers_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=add, args=(tmp_path, f"net{k}")) for k in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 4
    for table, key in (("tasks", "task_id"), ("nodes", "graph_id")):
        assert set(pd.read_parquet(tmp_path / f"{table}.parquet")[key]) == {f"net{k}" for k in range(4)}

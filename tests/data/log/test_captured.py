"""Captured models in a folder of logs: added whole or not at all, and read with their constraints."""

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

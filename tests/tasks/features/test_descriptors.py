import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import BLOCK, join, tables

from mfcp.errors import DataError
from mfcp.tasks.features.descriptors import TaskFeatures, describe_tasks, summarise
from mfcp.tasks.features.encoder import Encoder
from mfcp.tasks.graphs.operator_graphs import build_graphs

TASKS = pd.DataFrame(
    {
        "task_id": ["t0", "t1", "t2"],
        "domain": ["cv", "nlp", "cv"],
        "model": ["m", "m", "k"],
        "batch_size": pd.array([8, None, 32], dtype="Int64"),
        "input_size": [224, 224, 224],
        "precision": ["fp32", "fp32", None],
        "phase": ["train", "train", "train"],
        "param_count": [1e6, 2e6, 3e6],
        "flops": [np.nan, np.nan, np.nan],
        "graph_id": ["g", None, "h"],
        "samples": [1.0, 2.0, 3.0],
    }
)


def column(described, name):
    names, matrix = described
    return matrix[:, names.index(name)].tolist()


def test_descriptors_by_hand():
    described = describe_tasks(TASKS)
    assert column(described, "log_param_count") == pytest.approx(np.log([1e6, 2e6, 3e6]))
    assert column(described, "log_batch_size") == pytest.approx([np.log(8), 0, np.log(32)])
    assert column(described, "no_batch_size") == [0, 1, 0]
    assert column(described, "domain=nlp") == [0, 1, 0]
    assert column(described, "precision=unknown") == [0, 0, 1]
    assert column(described, "model=k") == [0, 0, 1]


def test_constant_columns_samples_and_absent_tables_leave_no_trace():
    names, matrix = describe_tasks(TASKS)
    assert matrix.shape == (3, len(names))
    for absent in ("log_input_size", "phase=train", "log_flops", "no_flops", "no_graph"):
        assert absent not in names
    assert not [name for name in names if "samples" in name]


def test_a_category_of_many_values_is_left_out():
    many = pd.DataFrame({"model": [f"m{i}" for i in range(13)], "batch_size": range(1, 14)})
    assert describe_tasks(many)[0] == ("log_batch_size",)


def test_histograms_of_a_hand_countable_graph():
    table = summarise(build_graphs(*BLOCK), True)
    expected = {
        "log_graph_count": 4,
        "log_graph_flops": 2e9,
        "log_graph_bytes": 48,
        "log_graph_params": 8,
        "log_count_matmul": 2,
        "log_flops_matmul": 2e9,
        "log_bytes_activation": 12,
        "log_params_arithmetic": 2,
        "log_graph_depth": 4,
        "log_graph_edges": 4,
        "log_count_other": 0,
    }
    for name, value in expected.items():
        assert np.expm1(table[name]) == pytest.approx([value]), name


def test_histograms_are_asked_for_and_a_graph_replaces_the_activations():
    tasks = TASKS.assign(activations=[1.0, 2.0, 3.0])
    graphs = build_graphs(*BLOCK)
    assert "log_activations" in describe_tasks(tasks)[0]
    short, long = (describe_tasks(tasks, graphs, histograms=wanted)[0] for wanted in (False, True))
    assert "log_activations" not in short
    assert {"log_graph_depth", "log_flops_matmul"} <= set(long) - set(short)


def test_tasks_without_a_graph_are_flagged():
    described = describe_tasks(TASKS, build_graphs(*BLOCK))
    assert column(described, "no_graph") == [0, 1, 1]
    assert column(described, "log_graph_count") == pytest.approx([np.log(5), 0, 0])


def test_features_join_descriptors_and_vectors():
    nodes, edges = join(BLOCK, tables(["mm", "mm"], [(0, 1)], "h", flops=5e9))
    log = {"tasks": TASKS, "nodes": nodes, "edges": edges}
    encoder = Encoder.build("gnn", steps=3, size=4)
    encoded = TaskFeatures.of(log, np.array(["t2", "t0", "t1"])).encode(np.array([True, True, False]), encoder, 0)
    names, Z = encoded.names, encoded.Z
    assert names[-4:] == ("z0", "z1", "z2", "z3")
    assert Z.shape == (3, len(names))
    assert Z[:, names.index("log_param_count")] == pytest.approx(np.log([3e6, 1e6, 2e6]))
    assert (Z[2, -4:] == 0).all()
    assert (Z[:2, -4:] != 0).all()


def test_a_log_without_graphs_has_descriptors_only_and_an_unknown_task_is_an_error():
    bare = TaskFeatures.of({"tasks": TASKS}, np.array(["t0", "t2"]))
    assert "z0" not in bare.encode(np.ones(2, bool), Encoder.build("gnn"), 0).names
    with pytest.raises(DataError, match="no task_id 't9'"):
        TaskFeatures.of({"tasks": TASKS}, np.array(["t0", "t9"]))

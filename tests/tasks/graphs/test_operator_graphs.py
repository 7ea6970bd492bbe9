import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import BLOCK, join, tables

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs, depth
from mfcp.tasks.graphs.operators import CLASS_NAMES


def test_graphs_lie_end_to_end_in_order_of_name_and_node():
    nodes, edges = join(
        tables(["mm", "relu"], [(0, 1)], "b"), tables(["mm", "add", "mm"], [(0, 1), (1, 2), (1, 2)], "a")
    )
    graphs = build_graphs(nodes.sample(frac=1, random_state=0), edges)
    assert list(graphs.graph_id) == ["a", "b"]
    assert list(graphs.ptr) == [0, 3, 5]
    assert [CLASS_NAMES[k] for k in graphs.kind] == ["matmul", "arithmetic", "matmul", "matmul", "activation"]
    assert graphs.edges.tolist() == [[0, 1, 3], [1, 2, 4]]
    assert list(graphs.numel) == [1, 2, 3, 1, 2]
    assert list(graphs.positions(np.array(["b", "c", "a", ""]))) == [1, -1, 0, -1]


def test_categorical_columns_and_unknown_amounts():
    nodes, edges = BLOCK
    nodes = nodes.assign(graph_id=nodes["graph_id"].astype("category"), op=nodes["op"].astype("category"))
    nodes["bytes_read"] = pd.array([8, None, 8, 8], dtype="Int64")
    assert list(build_graphs(nodes, edges).read) == [8, 0, 8, 8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n, e: (n, pd.concat([e, e[:1].assign(dst=9)])), r"graph 'g' names dst 9, which is no node_id"),
        (lambda n, e: (n, pd.concat([e, e[:1].assign(src=-1)])), r"names src -1"),
        (lambda n, e: (n, pd.concat([e, e[:1].assign(graph_id="h")])), r"graph 'h' names src 0"),
        (lambda n, e: (n[:0], e), r"names src 0"),
        (lambda n, e: (n, pd.concat([e, e[:1].assign(src=3, dst=1)])), r"graph 'g' has a cycle"),
        (lambda n, e: (n, pd.concat([e, e[:1].assign(src=2, dst=2)])), r"graph 'g' has a cycle"),
        (lambda n, e: (pd.concat([n, n[:1]]), e), r"graph 'g' has node_id 0 twice"),
    ],
)
def test_damaged_graphs_are_errors_that_name_the_graph(change, message):
    with pytest.raises(DataError, match=message):
        build_graphs(*change(*BLOCK))


def test_edges_against_the_order_of_node_ids_are_no_cycle():
    graphs = build_graphs(*tables(["mm", "mm", "mm"], [(2, 0), (0, 1)]))
    assert list(depth(graphs.edges, 3)) == [1, 2, 0]


def test_depth_by_hand():
    assert list(depth(build_graphs(*BLOCK).edges, 4)) == [0, 1, 2, 3]
    assert list(depth(np.empty((2, 0), np.int64), 2)) == [0, 0]


def test_empty_tables_give_no_graphs():
    nodes, edges = BLOCK
    graphs = build_graphs(nodes[:0], edges[:0])
    assert len(graphs.graph_id) == 0
    assert list(graphs.positions(np.array(["g"]))) == [-1]

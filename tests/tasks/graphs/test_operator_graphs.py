import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import BLOCK, join, tables

from mfcp.errors import DataError
from mfcp.tasks.graphs.coarsening import coarsen
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


def test_unknown_operators_are_kept_and_counted():
    graphs = build_graphs(*tables(["mm", "sparkle", "sparkle", "add"], [(0, 1)]))
    assert graphs.unknown == {"sparkle": 2}
    assert [CLASS_NAMES[k] for k in graphs.kind] == ["matmul", "other", "other", "arithmetic"]


def test_convolutions_over_few_terms_are_a_class_of_their_own():
    nodes, edges = tables(["convolution", "convolution"], [(0, 1)])
    nodes["flops"], nodes["output_numel"] = [18e3, 576e3], [1000, 1000]
    assert [CLASS_NAMES[k] for k in build_graphs(nodes, edges).kind] == ["thin_convolution", "convolution"]


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


def test_light_operators_join_their_producer_and_sums_are_kept():
    """mm(0) and relu(1) become one group, which has two consumers; add(3) takes in its producer mm(2)."""
    graphs = build_graphs(*BLOCK)
    coarse = coarsen(graphs)
    assert list(coarse.group) == [0, 0, 1, 1]
    assert coarse.edges.tolist() == [[0], [1]]
    assert list(coarse.flops) == [1e9, 1e9]
    assert list(coarse.traffic) == [24, 24]
    assert list(coarse.numel) == [2, 4]
    names = [CLASS_NAMES.index(name) for name in ("matmul", "activation", "arithmetic")]
    assert coarse.members[:, names].tolist() == [[1, 1, 0], [1, 0, 1]]


def test_a_long_chain_becomes_one_node():
    n = 20_000
    graphs = build_graphs(*tables(["mm"] * n, [(i, i + 1) for i in range(n - 1)]))
    coarse = coarsen(graphs)
    assert len(coarse.flops) == 1
    assert coarse.flops[0] == n * 1e9
    assert coarse.edges.shape == (2, 0)
    assert depth(graphs.edges, n).max() == n - 1


@pytest.mark.parametrize("seed", range(5))
def test_coarsening_random_graphs_keeps_totals_order_and_the_absence_of_cycles(seed):
    rng = np.random.default_rng(seed)
    parts = []
    for g in range(4):
        n = int(rng.integers(1, 60))
        operators = rng.choice(["mm", "relu", "add", "convolution", "sparkle"], n).tolist()
        ends = np.sort(rng.integers(0, n, (2 * n, 2)), axis=1)
        parts.append(tables(operators, ends[ends[:, 0] < ends[:, 1]], f"g{g}"))
    graphs = build_graphs(*join(*parts))
    coarse = coarsen(graphs)
    size = len(coarse.flops)
    assert size <= len(graphs.kind)
    assert coarse.flops.sum() == graphs.flops.sum()
    assert coarse.members.sum() == len(graphs.kind)
    # Groups stay within their graph ...
    np.testing.assert_array_equal(np.searchsorted(coarse.ptr, coarse.group, side="right") - 1, graphs.graph)
    # ... no edge between groups is lost ...
    crossing = coarse.group[graphs.edges]
    crossing = crossing[:, crossing[0] != crossing[1]]
    assert set(map(tuple, crossing.T.tolist())) == set(map(tuple, coarse.edges.T.tolist()))
    # ... and every group can be ordered: with a cycle some would never become ready and keep level 0.
    level = depth(coarse.edges, size)
    assert (level[coarse.edges[0]] < level[coarse.edges[1]]).all()


def test_empty_tables_give_no_graphs():
    nodes, edges = BLOCK
    graphs = build_graphs(nodes[:0], edges[:0])
    assert len(graphs.graph_id) == 0
    assert list(graphs.positions(np.array(["g"]))) == [-1]

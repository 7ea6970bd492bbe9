"""Equal operators are kept once, with what their amounts tell of their shape."""

import numpy as np
import pytest
from graphs_by_hand import BLOCK, join, tables

from mfcp.tasks.graphs.distinct import shape_features
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES


def test_equal_operators_are_kept_once_and_counted():
    """Two products with the same neighbours are one; a third one, at the end of its graph, is another."""
    nodes, edges = tables(["mm", "mm", "mm"], [(0, 1), (1, 2)])
    nodes["output_numel"] = 3
    distinct = build_graphs(*join((nodes, edges), (nodes.assign(graph_id="h"), edges.assign(graph_id="h")))).distinct
    assert distinct.counts.toarray().tolist() == [[1, 1, 1]] * 2
    assert distinct.counts.shape == (2, 3)  # first, middle and last: by their neighbours, and of both graphs at once
    chain = tables(["mm"] * 5, [(i, i + 1) for i in range(4)])
    five = build_graphs(chain[0].assign(output_numel=3), chain[1]).distinct
    assert sorted(five.counts.toarray()[0]) == [1, 1, 3]


def test_amounts_by_class_are_counts_of_a_graph():
    graphs = build_graphs(*BLOCK)
    table = graphs.distinct.by_class(np.ones(len(graphs.distinct.kind)))
    expected = {"matmul": 2, "activation": 1, "arithmetic": 1}
    assert table.tolist() == [[expected.get(name, 0) for name in CLASS_NAMES]]


def test_shapes_of_a_grouped_convolution():
    """64 channels in and out, 3 x 3, 4 groups, 10 x 10 positions, no bias: 144 terms, density 9 / 4."""
    numel, terms = 64 * 100.0, 9 * 16.0
    amounts = (2 * terms * numel, 4 * numel, 4 * numel, numel, 64 * terms)
    shape = shape_features(*(np.array([a]) for a in amounts))[0]
    assert np.expm1(shape[5:9]) == pytest.approx([144, 64, 100, 64])
    assert np.exp(shape[11]) == pytest.approx(9 / 4)
    assert shape[12:].tolist() == [1, 1, 1]

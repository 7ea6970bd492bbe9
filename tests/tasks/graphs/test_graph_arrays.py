"""Operators know their graph."""

from graphs_by_hand import join, tables

from mfcp.tasks.graphs.operator_graphs import build_graphs


def test_every_operator_lies_in_the_graph_that_its_position_says():
    graphs = build_graphs(*join(tables(["mm", "relu"], [(0, 1)], "b"), tables(["mm"] * 3, [(0, 1), (1, 2)], "a")))
    assert graphs.graph.tolist() == [0, 0, 0, 1, 1]

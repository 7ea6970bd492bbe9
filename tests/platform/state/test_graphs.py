"""Graphs as bytes come back as they were."""

import pandas as pd
from graphs_by_hand import join, tables

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import EDGES, NODES
from mfcp.platform.state.graphs import pack, unpack


def drawn():
    nodes, edges = join(tables(["mm", "relu"], [(0, 1)], "b"), tables(["mm"], [], "a"))
    return coerce(NODES, nodes).frame[[c.name for c in NODES.columns]], coerce(EDGES, edges).frame


def test_packed_graphs_are_the_rows_that_went_in():
    nodes, edges = drawn()
    packed = {table.name: pack(frame, table, ["a", "b"]) for table, frame in ((NODES, nodes), (EDGES, edges))}
    assert set(packed["edges"]) == {"b"}  # one without edges has none to keep
    rows = [{name: packed[name].get(graph) for name in packed} for graph in ("b", "a")]
    back = unpack(rows)
    expected = nodes.sort_values("graph_id", ascending=False, kind="stable").reset_index(drop=True)
    pd.testing.assert_frame_equal(back["nodes"][expected.columns], expected)
    pd.testing.assert_frame_equal(back["edges"], edges[list(back["edges"])].reset_index(drop=True))


def test_only_wanted_graphs_are_packed_and_nothing_is_two_empty_tables():
    nodes, _ = drawn()
    assert set(pack(nodes, NODES, ["a", "missing"])) == {"a"}
    assert pack(nodes, NODES, []) == {}
    assert all(frame.empty for frame in unpack([]).values())

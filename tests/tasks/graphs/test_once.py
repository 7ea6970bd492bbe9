"""Operators that the batch does not repeat: marked by a capture, told from the graph elsewhere."""

import numpy as np
import pytest
import torch
from graphs_by_hand import join, tables
from hypothesis import given
from hypothesis import strategies as st

from mfcp.emulator import zoo
from mfcp.tasks.capture.model_graph import capture
from mfcp.tasks.capture.scaling import at_batch, capture_scaled
from mfcp.tasks.graphs.operator_graphs import build_graphs

# 0 pads the input, 1 convolves it, 2 standardises the weights of 3, which reads both; 4 ends.
STANDARDISED = tables(
    ["constant_pad_nd", "convolution", "var_mean", "convolution", "relu"], [(0, 1), (1, 3), (2, 3), (3, 4)]
)


def once(nodes, edges):
    return build_graphs(nodes, edges).once.tolist()


def test_what_no_entry_reaches_runs_once():
    assert once(*STANDARDISED) == [False, False, True, False, False]


def test_a_mark_of_the_log_decides():
    nodes, edges = STANDARDISED
    assert once(nodes.assign(once=[1, 0, 0, np.nan, np.nan]), edges) == [True, False, False, False, False]


def test_every_look_up_is_an_entry():
    """Of an encoder and a decoder that meet at operator 4."""
    names = ["embedding", "mm", "embedding", "mm", "bmm", "arange", "add"]
    assert once(*tables(names, [(0, 1), (1, 4), (2, 3), (3, 4), (4, 6), (5, 6)])) == [*[False] * 5, True, False]


def test_a_log_without_its_edges_marks_nothing():
    nodes, _ = STANDARDISED
    assert not any(once(*tables(list(nodes["op"]), [])))
    assert not any(once(*tables(["relu", "add"], [])))
    whole, torn = STANDARDISED, tables(list(nodes["op"]), [(0, 1), (2, 3)], "h")
    assert sum(once(*join(whole, torn))) == 1


@given(st.data())
def test_reaching_is_that_of_a_search_written_apart(data):
    """Several graphs of a few operators, edges in any order of their ids."""
    parts, expected = [], []
    for g in range(data.draw(st.integers(1, 3))):
        n = data.draw(st.integers(1, 6))
        names = data.draw(st.lists(st.sampled_from(["mm", "relu", "embedding", "add"]), min_size=n, max_size=n))
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
        parts.append(tables(names, edges, f"g{g}"))
        heavy = [i for i, name in enumerate(names) if name == "mm"]
        seen = {heavy[0] if heavy else 0} | {i for i, name in enumerate(names) if name == "embedding"}
        for i in reversed(range(n)):
            seen |= {i} if any(a == i and b in seen for a, b in edges) else set()
        for i in range(n):
            seen |= {i} if any(b == i and a in seen for a, b in edges) else set()
        expected += [i not in seen and n - 1 in seen for i in range(n)]
    assert once(*join(*parts)) == expected


@pytest.mark.parametrize("graph_id", ["beit-small@32", "swin-nano@32", "opt-mini@64"])
def test_a_capture_marks_what_does_not_grow(graph_id):
    """From two batches it is measured; from one it is told by what reads the inputs, but for masks made of shapes."""
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    model, inputs = zoo.build(variant)
    scaled = capture_scaled(model, inputs, "g").nodes
    small, large = at_batch(scaled, 2), at_batch(scaled, 4)
    grows = (large[["bytes_read", "bytes_written"]] > small[["bytes_read", "bytes_written"]]).any(axis=1)
    assert scaled["once"].tolist() == (~grows).astype(int).tolist()
    assert 0 < scaled["once"].mean() < 0.5
    larger = {name: torch.empty(2, *t.shape[1:], dtype=t.dtype, device="meta") for name, t in inputs.items()}
    told = capture(model, larger, "g")[0]
    differs = told["once"] != scaled["once"]
    traffic = told["bytes_read"] + told["bytes_written"]
    assert (scaled.loc[differs, "once"] == 0).all()
    assert traffic[differs].sum() < 0.02 * traffic.sum()
    assert not differs.any() or not graph_id.startswith("beit")


@pytest.mark.parametrize("graph_id", ["beit-small@32", "swin-nano@32"])
def test_the_graph_tells_what_the_capture_marks(graph_id):
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    nodes, edges = zoo.capture_all([variant])
    assert once(nodes.drop(columns="once"), edges) == nodes["once"].astype(bool).tolist()
    assert nodes["once"].sum() > 40

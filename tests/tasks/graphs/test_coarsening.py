"""Coarsening keeps sums, order and the absence of cycles."""

import numpy as np
import pytest
from graphs_by_hand import BLOCK, join, tables

from mfcp.tasks.graphs.coarsening import coarsen
from mfcp.tasks.graphs.operator_graphs import build_graphs, depth
from mfcp.tasks.graphs.operators import CLASS_NAMES


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

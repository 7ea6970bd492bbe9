"""The network over operator graphs: each graph by itself."""

import numpy as np
import pandas as pd
import pytest
import torch
from graphs_by_hand import BLOCK, join, tables

from mfcp.tasks.features.graph_network import MeanConvolution
from mfcp.tasks.graphs.operator_graphs import build_graphs

pytestmark = pytest.mark.xdist_group("encoder")  # one worker makes what they share


def test_a_vector_depends_on_its_own_graph_only(fitted):
    alone = build_graphs(*tables(["mm", "relu", "mm"], [(0, 1), (1, 2)], "x"))
    beside = build_graphs(*join(BLOCK, tables(["mm", "relu", "mm"], [(0, 1), (1, 2)], "x")))
    np.testing.assert_allclose(fitted.transform(alone)[0], fitted.transform(beside)[1], rtol=1e-4, atol=1e-5)


def test_a_graph_without_edges_or_flops_is_encoded(fitted):
    nodes, edges = tables(["relu"], [])
    graphs = build_graphs(nodes.assign(bytes_read=0, bytes_written=0), pd.DataFrame(edges))
    assert np.isfinite(fitted.transform(graphs)).all()


@pytest.mark.parametrize("root_weight", [True, False])
@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (7, 3), (50, 200), (2000, 9000)])
def test_a_trained_layer_is_applied_to_the_bit_as_the_library_would(root_weight: bool, nodes: int, edges: int) -> None:
    """Nodes without edges, several edges between two nodes and loops included."""
    from torch_geometric.nn import SAGEConv

    rng = torch.Generator().manual_seed(nodes)
    ends = torch.randint(nodes, (2, edges), generator=rng)
    h = torch.randn(nodes, 12, generator=rng)
    theirs = SAGEConv(12, 12, root_weight=root_weight)
    ours = MeanConvolution(12, 12, root_weight=root_weight)
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours(h, ends), theirs(h, ends))

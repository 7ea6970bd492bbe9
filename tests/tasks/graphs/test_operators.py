"""Which class an operator belongs to."""

from graphs_by_hand import tables

from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES


def test_unknown_operators_are_kept_and_counted():
    graphs = build_graphs(*tables(["mm", "sparkle", "sparkle", "add"], [(0, 1)]))
    assert graphs.unknown == {"sparkle": 2}
    assert [CLASS_NAMES[k] for k in graphs.kind] == ["matmul", "other", "other", "arithmetic"]


def test_convolutions_over_few_terms_are_a_class_of_their_own():
    nodes, edges = tables(["convolution", "convolution"], [(0, 1)])
    nodes["flops"], nodes["output_numel"] = [18e3, 576e3], [1000, 1000]
    assert [CLASS_NAMES[k] for k in build_graphs(nodes, edges).kind] == ["thin_convolution", "convolution"]

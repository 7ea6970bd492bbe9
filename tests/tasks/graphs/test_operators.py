"""Which class an operator belongs to."""

import pandas as pd
import torch
from graphs_by_hand import tables

from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS, classify, identify

STRANGE = {"_fft_c2r", "_fft_r2c", "_pdist_forward"}  # nothing that is known does as they do
NUMBERS = {"_local_scalar_dense"}  # a number for the host


def test_unknown_operators_are_kept_and_counted():
    graphs = build_graphs(*tables(["mm", "sparkle", "sparkle", "add"], [(0, 1)]))
    assert graphs.unknown == {"sparkle": 2}
    assert [CLASS_NAMES[k] for k in graphs.kind] == ["matmul", "other", "other", "arithmetic"]


def test_convolutions_over_few_terms_are_a_class_of_their_own():
    nodes, edges = tables(["convolution", "convolution"], [(0, 1)])
    nodes["flops"], nodes["output_numel"] = [18e3, 576e3], [1000, 1000]
    assert [CLASS_NAMES[k] for k in build_graphs(nodes, edges).kind] == ["thin_convolution", "convolution"]


def test_what_is_like_a_known_operator_is_taken_for_it_forward_and_backward():
    names = pd.Series(
        [
            "_embedding_bag",
            "_embedding_bag_backward",
            "nll_loss2d_forward",
            "scatter_add",
            "max_pool3d_with_indices_backward",
        ]
    )
    like = ["embedding", "embedding", "nll_loss_forward", "index_put", "max_pool2d_with_indices"]
    assert [OPERATORS[k] for k in identify(names)] == like
    kind, unknown = classify(names, *[names.str.len().to_numpy(float)] * 2)
    assert not unknown
    assert [CLASS_NAMES[k] for k in kind] == ["movement", "movement", "reduction", "movement", "reduction"]


def test_every_core_operator_of_pytorch_has_a_class():
    """Of those that compute something: views and empty allocations are no nodes of a graph."""
    core = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            schema = getattr(packet, overload)._schema
            makes_views = any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)
            if torch.Tag.core in getattr(packet, overload).tags and not makes_views and "sym_" not in name:
                core.add(name if name.endswith("__") else name.rstrip("_"))
    assert len(core) > 120
    names = pd.Series(sorted(core))
    unknown = classify(names, *[names.str.len().to_numpy(float)] * 2)[1]
    assert set(unknown) - {"empty", "empty_strided", "expand", "view"} == STRANGE | NUMBERS

"""Graphs of the published cases as kernels, fused or not."""

import json

import pandas as pd

from benchmarks.neusight import _kernels


def graph(name, *nodes):
    """Nodes as (operator, its parts)."""
    rows = [
        {"graph_id": name, "position": k, "node": f"n{k}", "operator": operator, "forward": json.dumps(parts),
         "backward": "[]", "accumulate": "[]"}
        for k, (operator, parts) in enumerate(nodes)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def told(rows):
    kernels = _kernels(rows, layers=24)
    each = zip(kernels.kind.tolist(), kernels.size.tolist(), kernels.count.tolist(), strict=True)
    return sorted((kind, tuple(size), count) for kind, size, count in each)


ADD, NORM, GELU = ["VECadd", [64, 32]], ["VECln", [64, 32]], ["VECgelu", [64, 32]]
COPY, LINEAR = ["MEM", [[8, 4], [8]]], ["Linear", [64, 32, 16]]


def test_every_operator_is_a_kernel_and_equal_ones_are_counted():
    rows = graph("toy-inf-8-2", ("VECadd", [ADD]), ("VECadd", [ADD]), ("Linear", [LINEAR]), ("misc", []))
    assert told(rows) == [("binary", (64, 32, 1, 1), 2), ("linear", (1, 64, 32, 16), 1)]


def test_a_fused_group_goes_over_memory_once():
    """Products and copies stay; of the rest the one that moves most, and of equals the one that does most."""
    rows = graph("bert-inf-8-2-fusion", ("fused", [COPY, ADD, ADD, NORM]), ("fused", [LINEAR, GELU]), ("fused", []))
    assert told(rows) == [
        ("binary", (64, 32, 1, 1), 1),
        ("copy", (40, 1, 1, 1), 1),
        ("linear", (1, 64, 32, 16), 1),
        ("unary", (64, 32, 1, 1), 1),
    ]
    assert told(graph("bert-inf-8-2-fusion", ("fused", [GELU, NORM]))) == [("normalization", (64, 32, 1, 1), 1)]

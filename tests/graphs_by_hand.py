"""Small operator graphs as tables, countable by hand."""

import numpy as np
import pandas as pd


def tables(operators, edges, graph_id="g", flops=1e9):
    """Nodes and edges of one graph: matrix products cost `flops`, every operator reads 8 and writes 4 bytes."""
    n = len(operators)
    nodes = pd.DataFrame(
        {
            "graph_id": graph_id,
            "node_id": np.arange(n),
            "op": operators,
            "flops": [flops if op in {"mm", "convolution"} else 0.0 for op in operators],
            "bytes_read": 8,
            "bytes_written": 4,
            "output_numel": np.arange(1, n + 1),
            "param_count": 2,
        }
    )
    table = pd.DataFrame(edges, columns=["src", "dst"], dtype="int64")
    table.insert(0, "graph_id", graph_id)
    return nodes, table


def join(*parts):
    return tuple(pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))


def interpolating(channels, count=1, graph_id="g"):
    """A convolution of 3 x 3 over each of its channels, and interpolations of its 7 x 7 outputs."""
    edges = [(0, k + 1) for k in range(count)]
    nodes, edges = tables(["convolution", *["upsample_bilinear2d"] * count], edges, graph_id)
    numel = np.r_[49 * channels, np.full(count, 7)]
    weights = np.r_[9 * channels, np.zeros(count)]
    return nodes.assign(output_numel=numel, flops=18 * 49 / 9 * weights, param_count=weights), edges


# A residual block: 0 -> 1 -> 2 -> 3, and 3 also reads 0.
BLOCK = tables(["mm", "relu", "mm", "add"], [(0, 1), (1, 2), (2, 3), (0, 3)])

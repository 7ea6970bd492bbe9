"""Chains of operators, and an encoder that is trained in a moment."""

import numpy as np
from graphs_by_hand import join, tables

from mfcp.tasks.features.encoder import Encoder
from mfcp.tasks.graphs.operator_graphs import build_graphs

QUICK = Encoder.build("gnn", steps=100, graphs=16)


def chains(count, seed=0):
    """Chains of products and activations of random length and size."""
    rng = np.random.default_rng(seed)
    parts = []
    for g in range(count):
        n = int(rng.integers(2, 30))
        nodes, edges = tables(
            rng.choice(["mm", "relu", "add"], n).tolist(), [(i, i + 1) for i in range(n - 1)], f"g{g:03d}"
        )
        size = 10 ** rng.uniform(3, 7)
        amounts = {name: nodes[name] * size for name in ("flops", "bytes_read", "bytes_written")}
        parts.append((nodes.assign(**amounts), edges))
    return build_graphs(*join(*parts))

"""Chains of operators whose times are multiples of their roofline, and what a quick fit of operator times needs."""

import numpy as np
from graphs_by_hand import join, tables

from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings
from mfcp.tasks.timing.roofline import Accelerator, graph_roofline

MACHINES = (Accelerator(1e12, 1e11, 4.0, 8.0), Accelerator(5e12, 2e11, 2.0, 64.0))
QUICK = TimingSettings(epochs=25, tasks=16, members=1, dropout=0.0)


def models(count, seed=0):
    """Chains of products and activations of random length and size."""
    rng = np.random.default_rng(seed)
    parts = []
    for g in range(count):
        n = int(rng.integers(3, 20))
        operators = rng.choice(["mm", "relu", "add"], n).tolist()
        nodes, edges = tables(operators, [(i, i + 1) for i in range(n - 1)], f"g{g:03d}")
        size = 10 ** rng.uniform(3, 6, n)
        amounts = {name: nodes[name] * size for name in ("bytes_read", "bytes_written", "output_numel")}
        parts.append((nodes.assign(flops=nodes["flops"] / 1e5 * size, **amounts), edges))
    return join(*parts)


def memory_bound(count, seed=0):
    """Products and sums whose seconds are those of their bytes."""
    rng = np.random.default_rng(seed)
    parts = []
    for g in range(count):
        nodes, edges = tables(rng.choice(["mm", "add"], rng.integers(4, 20)).tolist(), [], f"g{g:02d}")
        size = 10 ** rng.uniform(6, 8, len(nodes))
        parts.append((nodes.assign(bytes_read=size, bytes_written=0.0, flops=nodes["flops"] * size / 1e9), edges))
    return join(*parts)


def truth(graphs, seed=0):
    """Twice and five times the roofline."""
    batch = np.random.default_rng(seed).choice([4.0, 8.0, 64.0], (2, len(graphs.graph_id)))
    roofline = graph_roofline(graphs.distinct, MACHINES, batch)
    return MeasuredSteps(np.arange(len(graphs.graph_id)), batch, np.exp(roofline) * np.array([[2.0], [5.0]]))

"""The flat arrays of operator graphs: what coarsening and the search for distinct operators work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts


@dataclass(frozen=True)
class GraphArrays:
    """G operator graphs with n operators and E edges in all.

    Args:
        graph_id: (G,) names, sorted.
        ptr: (G + 1,) first operator of each graph, and n.
        kind: (n,) index into `CLASS_NAMES`.
        operator: (n,) index into `OPERATORS`.
        flops, read, written, numel, params: (n,) per sample: FLOPs, bytes read and written, elements of the
            first output, parameter elements counted at their first use.
        once: (n,) whether an operator runs once a step, whatever the batch; its amounts are then those of a step.
        in_turn: (n,) channels of a sample that an operator goes through one after another, 0 for most.
        edges: (2, E) producer and consumer, positions in 0..n, unique.
        unknown: how many operators fell into the class `other`, by name.
    """

    graph_id: Texts
    ptr: Ints
    kind: Ints
    operator: Ints
    flops: Floats
    read: Floats
    written: Floats
    numel: Floats
    params: Floats
    once: Bools
    in_turn: Floats
    edges: Ints
    unknown: dict[str, int]

    @property
    def graph(self) -> Ints:
        """(n,) graph of each operator."""
        return np.repeat(np.arange(len(self.graph_id)), np.diff(self.ptr))

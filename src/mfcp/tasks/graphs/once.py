"""Operators that run once a step, whatever the batch: on weights and positions only, as standardised weights and
relative position biases are.

A capture marks them (`mfcp.tasks.capture.recording`). Where a log does not, they are told from the graph: what no entry
reaches. Entries are a model's first convolution or product, with all that leads there, and every look-up in a table.
"""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Ints
from mfcp.tasks.graphs.operators import HEAVY, OPERATORS

_LOOK_UP = OPERATORS.index("embedding")


def runs_once(ptr: Ints, kind: Ints, operator: Ints, edges: Ints) -> Bools:
    """(n,) whether no entry of its graph reaches an operator; arguments as in `GraphArrays`.

    No operator of a graph is said to run once where its last one would be: then the log has not all of its edges.
    """
    n, count = len(kind), len(ptr) - 1
    graph = np.repeat(np.arange(count), np.diff(ptr))
    start = np.where(np.diff(ptr) > 0, ptr[:-1], n)  # where nothing is heavy, the first operator
    heavy = np.flatnonzero(HEAVY[kind])
    _, at = np.unique(graph[heavy], return_index=True)
    start[graph[heavy[at]]] = heavy[at]
    entry = operator == _LOOK_UP
    entry[start[start < n]] = True
    producers, consumers = edges
    entry |= _reached(consumers, producers, entry)
    once = ~_reached(producers, consumers, entry)
    whole = ~once[ptr[1:] - 1] if n else np.zeros(count, bool)
    return once & whole[graph]


def _reached(source: Ints, target: Ints, start: Bools) -> Bools:
    """(n,) what paths over edges source → target reach from `start`, itself included."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n = len(start)
    first = np.flatnonzero(start)
    rows, columns = np.concatenate([np.full(len(first), n), source]), np.concatenate([first, target])
    table = csr_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(n + 1, n + 1))
    found = np.zeros(n + 1, bool)
    found[breadth_first_order(table, n, directed=True, return_predecessors=False)] = True
    return found[:n]

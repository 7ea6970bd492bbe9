"""Operator graphs of many models in one set of flat arrays.

Graph g owns nodes `ptr[g]:ptr[g + 1]`; edges hold positions in the flat arrays. Nothing here loops over
nodes in Python: 770,000 nodes are built in about a second.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Ints, Texts
from mfcp.errors import DataError
from mfcp.tasks.graphs.channels_in_turn import IN_TURN, channels_in_turn
from mfcp.tasks.graphs.coarsening import CoarseGraphs, coarsen
from mfcp.tasks.graphs.distinct import DistinctOperators, distinguish
from mfcp.tasks.graphs.graph_arrays import GraphArrays
from mfcp.tasks.graphs.once import runs_once
from mfcp.tasks.graphs.operators import classify, factorize, identify

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.tasks.graphs.coarsening import CoarseGraphs
    from mfcp.tasks.graphs.distinct import DistinctOperators


class OperatorGraphs(GraphArrays):
    """Operator graphs of many models, with what is made of them once: see `GraphArrays` for the arrays."""

    @cached_property
    def coarse(self) -> CoarseGraphs:
        """The graphs coarsened, see `mfcp.tasks.graphs.coarsening`; made once."""
        return coarsen(self)

    @cached_property
    def distinct(self) -> DistinctOperators:
        """The operators, each distinct one once, see `mfcp.tasks.graphs.distinct`; made once."""
        return distinguish(self)

    def positions(self, graph_id: Texts) -> Ints:
        """Position of each named graph in 0..G, -1 where there is none of that name."""
        return _find(self.graph_id, graph_id)


def build_graphs(nodes: pd.DataFrame, edges: pd.DataFrame) -> OperatorGraphs:
    """Operator graphs from the `nodes` and `edges` tables of the log schema, in any row order.

    Unknown amounts count as zero. Operators without a class are kept, in `other`. Which operators run once a step is
    column `once`; where it is empty, `mfcp.tasks.graphs.once` tells it.

    Raises:
        DataError: a duplicate node, an edge to a node that is not there, or a cycle; names the graph.
    """
    code, names = factorize(nodes["graph_id"])
    node_id = nodes["node_id"].to_numpy(np.int64)
    order = np.lexsort((node_id, code))
    code, node_id, table = code[order], node_id[order], nodes.iloc[order]
    span = int(node_id.max(initial=0)) + 1
    key = code * span + node_id
    repeated = np.flatnonzero(np.diff(key) == 0)
    if len(repeated):
        row = repeated[0]
        raise DataError(f"nodes: graph '{names[code[row]]}' has node_id {node_id[row]} twice; keep one of them")
    ends = _resolve(edges, names, key, span)
    ptr = np.searchsorted(code, np.arange(len(names) + 1))
    _check_acyclic(ends, len(key), names, code)
    columns = ("flops", "bytes_read", "bytes_written", "output_numel", "param_count")
    flops, read, written, numel, params = (table[column].to_numpy(np.float64, na_value=0.0) for column in columns)
    kind, unknown = classify(table["op"], flops, numel)
    operator = identify(table["op"])
    once = runs_once(ptr, kind, operator, ends)
    if "once" in table:
        marked = table["once"].to_numpy(np.float64, na_value=np.nan)
        once = np.where(np.isnan(marked), once, marked > 0)
    in_turn = channels_in_turn(table["op"].to_numpy() == IN_TURN, kind, flops, numel, params, ends)
    amounts = flops, read, written, numel, params
    return OperatorGraphs(names, ptr, kind, operator, *amounts, once, in_turn, ends, unknown)


def _find(names: Texts, wanted: Texts) -> Ints:
    """Position of each wanted name in the sorted `names`, -1 where it is missing."""
    if not len(names):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[at] == wanted, at, -1)


def _resolve(edges: pd.DataFrame, names: Texts, key: Ints, span: int) -> Ints:
    """(2, E) positions of the edges' ends, each edge once."""
    code, graph = factorize(edges["graph_id"])
    at = _find(names, graph)[code]
    count, key = len(key), key if len(key) else np.array([-1])  # a key that no end has
    ends = []
    for side in ("src", "dst"):
        end = edges[side].to_numpy(np.int64)
        wanted = at * span + end
        found = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        bad = (at < 0) | (end < 0) | (end >= span) | (key[found] != wanted)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"edges: row {row} of graph '{graph[code[row]]}' names {side} {end[row]}, which is no node_id of it "
                f"({int(bad.sum())} such rows); add the node or drop the edge"
            )
        ends.append(found)
    flat = np.unique(ends[0] * count + ends[1])
    return np.stack([flat // max(count, 1), flat % max(count, 1)])


def _check_acyclic(edges: Ints, n: int, names: Texts, code: Ints) -> None:
    if (edges[0] < edges[1]).all():
        return
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    loop = np.flatnonzero(edges[0] == edges[1])
    adjacency = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n)).tocsr()
    count, component = connected_components(adjacency, directed=True, connection="strong")
    if count == n and not len(loop):
        return
    where = edges[0, loop[0]] if len(loop) else np.flatnonzero(np.bincount(component)[component] > 1)[0]
    raise DataError(f"edges: graph '{names[code[where]]}' has a cycle; an operator cannot consume its own result")


def depth(edges: Ints, n: int) -> Ints:
    """(n,) length of the longest path to each node, by levels; `edges` (2, E) must be acyclic."""
    order = np.argsort(edges[0], kind="stable")
    consumers = edges[1, order]
    first = np.searchsorted(edges[0, order], np.arange(n + 1))
    waiting = np.bincount(edges[1], minlength=n)
    level = np.zeros(n, np.int64)
    frontier = np.flatnonzero(waiting == 0)
    step = 0
    while len(frontier):
        level[frontier] = step
        counts = first[frontier + 1] - first[frontier]
        offsets = np.repeat(first[frontier] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        reached = consumers[offsets + np.arange(len(offsets))]
        np.subtract.at(waiting, reached, 1)
        frontier = np.unique(reached[waiting[reached] == 0])
        step += 1
    return level

"""Operators of many graphs, each distinct one once.

Models repeat their blocks and share them with their relatives. Operators of the same name, amounts and kinds of
neighbours take the same time, so whatever is computed per operator is computed once per distinct one; a graph is then a
row of counts. On large collections that is a few times fewer operators, and nothing here depends on the split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Bools, Floats, Ints
from mfcp.tasks.graphs.graph_arrays import GraphArrays
from mfcp.tasks.graphs.operators import CLASS_NAMES, is_whole, products

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FEATURES = 16
NEIGHBOURS = 2 * len(CLASS_NAMES)
_MOST = 2  # of a class among producers or consumers; more are counted as this many


@dataclass(frozen=True)
class DistinctOperators:
    """U operators and how often each of G graphs holds them.

    Args:
        counts: (G, U) sparse.
        operator, kind: (U,) index into `OPERATORS` and `CLASS_NAMES`.
        flops, traffic, params: (U,) per sample: FLOPs, bytes read and written, parameter elements.
        once: (U,) whether it runs once a step, whatever the batch; its amounts are then those of a step.
        in_turn: (U,) channels of a sample that it goes through one after another; see `channels_in_turn`.
        shape: (U, FEATURES) what `shape_features` says of them, and `once`.
        neighbours: (U, NEIGHBOURS) producers, then consumers, by class, counted up to two.
    """

    counts: csr_array
    operator: Ints
    kind: Ints
    flops: Floats
    traffic: Floats
    params: Floats
    once: Bools
    in_turn: Floats
    shape: Floats
    neighbours: Floats

    def take(self, graphs: Ints) -> DistinctOperators:
        """The graphs at these positions, in this order, and the operators that occur in them."""
        counts = self.counts[graphs]
        used = np.unique(counts.indices)
        columns = ("operator", "kind", "flops", "traffic", "params", "once", "in_turn", "shape", "neighbours")
        return replace(self, counts=counts[:, used], **{name: getattr(self, name)[used] for name in columns})

    def of_steps(self, amount: Floats, batch: Floats) -> Floats:
        """(G, K) sums of amounts (U, K) over the operators of a step of `batch` (G,) samples."""
        once = self.once[:, None]
        repeated = batch[:, None] * (self.counts @ np.where(once, 0.0, amount))
        result: Floats = repeated + self.counts @ np.where(once, amount, 0.0)
        return result

    def by_class(self, amount: NDArray[np.floating]) -> Floats:
        """(G, C) sums of an amount (U,) over the operators of each class."""
        from scipy.sparse import csr_array

        size = len(self.kind)
        table = csr_array((amount, (np.arange(size), self.kind)), shape=(size, len(CLASS_NAMES)))
        result: Floats = (self.counts @ table).toarray()
        return result

    def class_steps(self, amount: Floats, batch: Floats) -> Floats:
        """(G, C) sums of an amount (U,) over the operators of each class, of a step of `batch` (G,) samples."""
        repeated = batch[:, None] * self.by_class(np.where(self.once, 0.0, amount))
        return repeated + self.by_class(np.where(self.once, amount, 0.0))


def distinguish(graphs: GraphArrays) -> DistinctOperators:
    """The distinct operators of some graphs; about a second for 770,000 operators."""
    from scipy.sparse import csr_array

    n, traffic = len(graphs.kind), graphs.read + graphs.written
    neighbours = _neighbours(graphs)
    base = np.array([_MOST + 1]) ** np.arange(len(CLASS_NAMES))
    around = neighbours.reshape(n, 2, len(CLASS_NAMES)).astype(np.int64) @ base
    amounts = (graphs.flops, graphs.read, graphs.written, graphs.numel, graphs.params)
    once = graphs.once.astype(np.int64)
    key = _mix([graphs.operator, graphs.kind, once, *around.T, *(a.view(np.int64) for a in amounts)])
    some = np.flatnonzero(graphs.in_turn)  # the others keep their key, and with it the order of sums
    key[some] = _mix([key[some].view(np.int64), graphs.in_turn[some].view(np.int64)])
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    counts = csr_array((np.ones(n), (graphs.graph, inverse)), shape=(len(graphs.graph_id), len(first)))
    counts.sum_duplicates()
    return DistinctOperators(
        counts=counts,
        operator=graphs.operator[first],
        kind=graphs.kind[first],
        flops=graphs.flops[first],
        traffic=traffic[first],
        params=graphs.params[first],
        once=graphs.once[first],
        in_turn=graphs.in_turn[first],
        shape=np.column_stack([shape_features(*(a[first] for a in amounts)), once[first]]),
        neighbours=neighbours[first].astype(np.float64),
    )


def shape_features(flops: Floats, read: Floats, written: Floats, numel: Floats, params: Floats) -> Floats:
    """(U, FEATURES - 1) logarithms of what amounts tell of an operator's shape.

    For a convolution or product with weights, 2 · (terms of a sum) FLOPs make one output, and weights = channels ·
    (terms + 1 with a bias). So terms = flops / (2 · numel), output channels = params / terms, output positions =
    numel / channels, and input channels (times the stride squared) = inputs / positions. The ratio of terms to
    input channels is kernel / (groups · stride²): it tells dense from grouped and depthwise ones.
    """
    terms, channels = products(flops, numel, params)
    weighted = channels > 0
    positions = np.where(weighted, numel / np.maximum(channels, 1), 0.0)
    inputs = np.where(weighted, read / 4 / np.maximum(positions, 1e-9), 0.0)
    density = np.where(weighted, terms / np.maximum(inputs, 1e-9), 1.0)
    logs = (flops, read, written, numel, params, terms, channels, positions, inputs, read / np.maximum(written, 1))
    columns = [np.log1p(column) for column in logs]
    columns += [np.log1p(flops / np.maximum(read + written, 1)), np.log(np.maximum(density, 1e-6))]
    columns += [is_whole(channels / 8) & weighted, is_whole(terms / 8) & weighted, weighted]
    return np.column_stack(columns).astype(np.float64)


def _neighbours(graphs: GraphArrays) -> NDArray[np.int8]:
    """(n, NEIGHBOURS) classes of producers and of consumers, counted up to `_MOST`."""
    n, classes = len(graphs.kind), len(CLASS_NAMES)
    sides = []
    for here, there in ((1, 0), (0, 1)):
        cell = graphs.edges[here] * classes + graphs.kind[graphs.edges[there]]
        count = np.bincount(cell, minlength=n * classes)
        sides.append(np.minimum(count, _MOST).astype(np.int8).reshape(n, classes))
    return np.concatenate(sides, axis=1)


def _mix(columns: list[Ints]) -> NDArray[np.uint64]:
    """(n,) 64-bit hash of rows: two different ones agree with probability 2^-64."""
    key = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        key = (key ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(32)
    return key

"""Coarsening of operator graphs: groups of operators that run one after another anyway."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.tasks.graphs.graph_arrays import GraphArrays
from mfcp.tasks.graphs.operators import CLASS_NAMES, HEAVY


@dataclass(frozen=True)
class CoarseGraphs:
    """Graphs whose nodes are groups of operators.

    Args:
        ptr: (G + 1,) first group of each graph, and n.
        members: (n, C) how many operators of each class a group holds.
        flops, traffic, params: (n,) sums over the group: FLOPs, bytes read and written, parameters.
        numel: (n,) the group's largest output, elements.
        edges: (2, E) producing and consuming group, unique, no loops.
        group: (operators,) the group of each operator of the original graphs.
    """

    ptr: Ints
    members: Floats
    flops: Floats
    traffic: Floats
    params: Floats
    numel: Floats
    edges: Ints
    group: Ints


def coarsen(graphs: GraphArrays) -> CoarseGraphs:
    """Groups of operators that run one after another anyway; about 5 times fewer nodes.

    Three contractions, none of which can close a cycle: a light operator (neither convolution nor matrix
    product) joins its only producer; a chain becomes one node; a producer joins its only consumer where
    that one is light.
    """
    n = len(graphs.kind)
    light, edges, group = ~HEAVY[graphs.kind], graphs.edges, np.arange(n)
    for rule in (_into_producer, _chains, _into_consumer):
        target = rule(light, edges)
        label = _roots(target)
        kept, label = np.unique(label, return_inverse=True)
        # A group is light only if all of its members are.
        heavy = np.zeros(len(kept), bool)
        np.logical_or.at(heavy, label, ~light)
        light, edges, group = ~heavy, _quotient(edges, label), label[group]
    size = len(light)
    # Groups are numbered by the position of a member, so they stay sorted by graph.
    graph_of = np.zeros(size, np.int64)
    graph_of[group] = graphs.graph

    def total(amount: Floats) -> Floats:
        return np.bincount(group, amount, size).astype(np.float64)

    largest = np.zeros(size)
    np.maximum.at(largest, group, graphs.numel)
    classes = len(CLASS_NAMES)
    return CoarseGraphs(
        ptr=np.searchsorted(graph_of, np.arange(len(graphs.graph_id) + 1)),
        members=np.bincount(group * classes + graphs.kind, minlength=size * classes)
        .reshape(size, classes)
        .astype(float),
        flops=total(graphs.flops),
        traffic=total(graphs.read + graphs.written),
        params=total(graphs.params),
        numel=largest,
        edges=edges,
        group=group,
    )


def _into_producer(light: Bools, edges: Ints) -> Ints:
    """Each light node with one producer points to it."""
    n = len(light)
    joins = light[edges[1]] & (np.bincount(edges[1], minlength=n)[edges[1]] == 1)
    return _point(n, edges[1, joins], edges[0, joins])


def _chains(light: Bools, edges: Ints) -> Ints:
    """Each node whose only producer has no other consumer points to it."""
    n = len(light)
    single = np.bincount(edges[1], minlength=n)[edges[1]] == 1
    joins = single & (np.bincount(edges[0], minlength=n)[edges[0]] == 1)
    return _point(n, edges[1, joins], edges[0, joins])


def _into_consumer(light: Bools, edges: Ints) -> Ints:
    """Each node whose only consumer is light points to it."""
    n = len(light)
    joins = light[edges[1]] & (np.bincount(edges[0], minlength=n)[edges[0]] == 1)
    return _point(n, edges[0, joins], edges[1, joins])


def _point(n: int, nodes: Ints, targets: Ints) -> Ints:
    target = np.arange(n)
    target[nodes] = targets
    return target


def _roots(target: Ints) -> Ints:
    """Where following `target` ends, by pointer jumping: as many rounds as the longest way has bits."""
    while True:
        further = target[target]
        if (further == target).all():
            return target
        target = further


def _quotient(edges: Ints, label: Ints) -> Ints:
    size = int(label.max(initial=-1)) + 1
    src, dst = label[edges[0]], label[edges[1]]
    flat = np.unique((src * size + dst)[src != dst])
    return np.stack([flat // size, flat % size]) if size else edges

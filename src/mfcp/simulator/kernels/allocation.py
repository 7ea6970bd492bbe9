# mypy: allow-untyped-decorators
"""Accelerators of nodes: which job fits where, and which holds what.

A node has accelerators that are `free` now, and others that are `open`: free, or held by a running job that a decision
has not looked at yet. A job that is placed takes what is free; only where that is not enough, what is open.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import inlined
from mfcp.simulator.kernels.books import BEST, FASTEST, FREE_CELL, NONE, Books

NO_ROOM, FREE, OPEN = 0, 1, 2


@inlined
def total(books: Books) -> int:
    """How many accelerators are free."""
    free = 0
    for node in range(len(books.nodes)):
        free += books.nodes[node].free
    return free


@inlined
def forget(books: Books, job: int) -> None:
    """A job holds nothing any more; what it held is not made free."""
    cell = books.jobs[job].cell
    while cell != NONE:
        following = books.cells[cell, 2]
        books.cells[cell, 2] = books.counts[FREE_CELL]
        books.counts[FREE_CELL] = cell
        cell = following
    books.jobs[job].cell = NONE


@inlined
def release(books: Books, job: int) -> None:
    """What a job holds becomes free."""
    cell = books.jobs[job].cell
    while cell != NONE:
        books.nodes[books.cells[cell, 0]].free += books.cells[cell, 1]
        cell = books.cells[cell, 2]
    forget(books, job)


@inlined
def open_up(books: Books, job: int, sign: int) -> bool:
    """What a running job holds is open to those before it; with sign -1 not any more, and whether all of it was."""
    cell, was = books.jobs[job].cell, True
    while cell != NONE:
        node = books.nodes[books.cells[cell, 0]]
        node.open += sign * books.cells[cell, 1]
        was = was and node.open >= 0
        cell = books.cells[cell, 2]
    return was


@inlined
def fit(books: Books, job: int, how: int, opens: bool) -> int:
    """Give a job one node if one has room, else whole nodes of one type and what is left on one more.

    Args:
        how: FIRST, BEST or FASTEST of the nodes that have room.
        opens: whether it may take what is open, where what is free is not enough.

    Returns:
        NO_ROOM, nothing is given; FREE or OPEN, what it has taken.
    """
    need, nodes = books.jobs[job].gpus, books.nodes
    for opened in range(1 + opens):
        chosen, most = NONE, -np.inf
        for node in range(len(nodes)):
            room, speed = nodes[node].open if opened else nodes[node].free, books.speed[job, nodes[node].type]
            if room < need or speed <= 0:
                continue
            good = float(speed) if how == FASTEST else -float(room) if how == BEST else 0.0
            if good > most:
                chosen, most = node, good
        if chosen != NONE:
            _give(books, job, np.int64(chosen), need)
            return FREE + opened
        for kind in range(books.speed.shape[1]):
            if books.speed[job, kind] > 0 and _spread(books, job, need, kind, opened):
                return FREE + opened
    return NO_ROOM


@inlined
def _give(books: Books, job: int, node: int, count: int) -> None:
    cell = books.counts[FREE_CELL]
    books.counts[FREE_CELL] = books.cells[cell, 2]
    books.cells[cell, 0] = node
    books.cells[cell, 1] = count
    books.cells[cell, 2] = books.jobs[job].cell
    books.jobs[job].cell = cell
    books.nodes[node].free -= count
    books.nodes[node].open -= count


@inlined
def _spread(books: Books, job: int, need: int, kind: int, opened: int) -> bool:
    """Whole nodes of a type in order, unless larger than what is left, and the first other one with room for the rest.

    Three passes: how much the whole nodes leave, which node has room for that, and only then what is given.
    """
    nodes, left, tail = books.nodes, need, NONE
    for turn in range(3):
        rest = need - left if turn == 2 else need
        for node in range(len(nodes)):
            size, room = nodes[node].size, nodes[node].open if opened else nodes[node].free
            if nodes[node].type != kind or node == tail:
                continue
            if room == size and size <= rest:
                rest -= size
                if turn == 2:
                    _give(books, job, node, size)
            elif turn == 1 and room >= left:
                tail = node
                break
        if turn == 0:
            left = rest
        elif turn == 1 and left > 0:
            if tail == NONE:
                return False
            _give(books, job, np.int64(tail), np.int32(left))
    return True

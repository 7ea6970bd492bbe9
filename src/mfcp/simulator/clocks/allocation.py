# mypy: allow-untyped-decorators
"""Accelerators of nodes: who fits where, who holds what."""

from __future__ import annotations

from mfcp.compiling import uncounted
from mfcp.simulator.clocks.state import BEST, FASTEST, FREE_CELL, NONE, Nodes, State, Work


@uncounted
def total(nodes: Nodes) -> int:
    """How many accelerators are free."""
    free = 0
    for node in range(len(nodes.free)):
        free += nodes.free[node]
    return free


@uncounted
def clear(nodes: Nodes) -> int:
    """All nodes are free again; how many accelerators that is."""
    for node in range(len(nodes.free)):
        nodes.free[node] = nodes.size[node]
    return int(total(nodes))


@uncounted
def give(nodes: Nodes, state: State, job: int, node: int, count: int) -> None:
    """Accelerators of a node to a job."""
    cell = state.counts[FREE_CELL]
    state.counts[FREE_CELL] = state.cells[cell, 2]
    state.cells[cell, 0] = node
    state.cells[cell, 1] = count
    state.cells[cell, 2] = state.cell[job]
    state.cell[job] = cell
    nodes.free[node] -= count


@uncounted
def forget(state: State, job: int) -> None:
    """A job holds nothing any more; what it held is not made free."""
    cell = state.cell[job]
    while cell != NONE:
        following = state.cells[cell, 2]
        state.cells[cell, 2] = state.counts[FREE_CELL]
        state.counts[FREE_CELL] = cell
        cell = following
    state.cell[job] = NONE


@uncounted
def release(nodes: Nodes, state: State, job: int) -> None:
    """What a job holds becomes free."""
    cell = state.cell[job]
    while cell != NONE:
        nodes.free[state.cells[cell, 0]] += state.cells[cell, 1]
        cell = state.cells[cell, 2]
    forget(state, job)


@uncounted
def keep(nodes: Nodes, state: State, job: int) -> bool:
    """Whether a job can stay where it is; takes the accelerators if it can."""
    cell = state.cell[job]
    if cell == NONE:
        return False
    while cell != NONE:
        if nodes.free[state.cells[cell, 0]] < state.cells[cell, 1]:
            return False
        cell = state.cells[cell, 2]
    cell = state.cell[job]
    while cell != NONE:
        nodes.free[state.cells[cell, 0]] -= state.cells[cell, 1]
        cell = state.cells[cell, 2]
    return True


@uncounted
def fit(work: Work, nodes: Nodes, state: State, job: int, how: int) -> bool:
    """Place a job: on one node if one has room, else on wholly free nodes of one type and what is left on one more."""
    need = work.gpus[job]
    node = _node_for(work, nodes, job, need, how)
    if node != NONE:
        give(nodes, state, job, node, need)
        return True
    for kind in range(work.speed.shape[1]):
        if work.speed[job, kind] > 0 and _spread(nodes, state, job, need, kind):
            return True
    return False


@uncounted
def _node_for(work: Work, nodes: Nodes, job: int, need: int, how: int) -> int:
    chosen = NONE
    for node in range(len(nodes.size)):
        if nodes.free[node] < need or work.speed[job, nodes.type[node]] <= 0:
            continue
        if how == BEST:
            better = chosen == NONE or nodes.free[node] < nodes.free[chosen]
        elif how == FASTEST:
            better = chosen == NONE or (work.speed[job, nodes.type[node]] > work.speed[job, nodes.type[chosen]])
        else:
            return node
        if better:
            chosen = node
    return chosen


@uncounted
def _spread(nodes: Nodes, state: State, job: int, need: int, kind: int) -> bool:
    """Whole nodes of a type in order; nothing is taken unless all fit."""
    left, last = need, NONE
    for node in range(len(nodes.size)):
        if nodes.type[node] == kind and nodes.free[node] == nodes.size[node] and nodes.size[node] <= left:
            left -= nodes.size[node]
            last = node
            if left == 0:
                break
    if left > 0:
        tail, rest = NONE, need
        for node in range(len(nodes.size)):
            if nodes.type[node] != kind:
                continue
            if node <= last and nodes.free[node] == nodes.size[node] and nodes.size[node] <= rest:
                rest -= nodes.size[node]  # one of those that are taken whole
            elif nodes.free[node] >= left:
                tail = node
                break
        if tail == NONE or last == NONE:
            return False
        give(nodes, state, job, tail, left)
    left = need - left
    for node in range(last + 1):
        if nodes.type[node] == kind and nodes.free[node] == nodes.size[node] and nodes.size[node] <= left:
            left -= nodes.size[node]
            give(nodes, state, job, node, nodes.size[node])
    return True

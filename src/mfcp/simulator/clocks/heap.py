# mypy: allow-untyped-decorators
"""Running jobs by the time at which something happens to them: an indexed binary heap."""

from __future__ import annotations

from mfcp.compiling import uncounted
from mfcp.simulator.clocks.state import HEAP_STEPS, HEAPED, NONE, State


@uncounted
def put(state: State, job: int) -> None:
    """Add a job, or move it to where its `next_at` belongs."""
    place = state.place[job]
    if place == NONE:
        place = state.counts[HEAPED]
        state.counts[HEAPED] += 1
        state.heap[place] = job
        state.place[job] = place
    _down(state, _up(state, place))


@uncounted
def take(state: State, job: int) -> None:
    """Remove a job that may be there."""
    place = state.place[job]
    if place == NONE:
        return
    state.place[job] = NONE
    state.counts[HEAPED] -= 1
    last = state.counts[HEAPED]
    if place < last:
        state.heap[place] = state.heap[last]
        state.place[state.heap[place]] = place
        _down(state, _up(state, place))


@uncounted
def _up(state: State, place: int) -> int:
    job = state.heap[place]
    while place > 0:
        parent = (place - 1) // 2
        above = state.heap[parent]
        if state.next_at[above] <= state.next_at[job]:
            break
        state.heap[place] = above
        state.place[above] = place
        place = parent
        state.counts[HEAP_STEPS] += 1
    state.heap[place] = job
    state.place[job] = place
    return place


@uncounted
def _down(state: State, place: int) -> None:
    job, size = state.heap[place], state.counts[HEAPED]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and state.next_at[state.heap[child + 1]] < state.next_at[state.heap[child]]:
            child += 1
        below = state.heap[child]
        if state.next_at[below] >= state.next_at[job]:
            break
        state.heap[place] = below
        state.place[below] = place
        place = child
        state.counts[HEAP_STEPS] += 1
    state.heap[place] = job
    state.place[job] = place

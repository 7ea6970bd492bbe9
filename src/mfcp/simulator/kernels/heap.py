# mypy: allow-untyped-decorators
"""Running jobs by the time at which something happens to them: an indexed binary heap with its times beside it."""

from __future__ import annotations

from mfcp.compiling import inlined
from mfcp.simulator.kernels.books import (
    BY_TIME,
    HEAP_STEPS,
    HEAPED,
    NONE,
    PLACE,
    Books,
)


@inlined
def put(books: Books, job: int, time: float) -> None:
    """Add a job to which something happens at this time, or move it to where that belongs."""
    place = books.lists[PLACE, job]
    if place == NONE:
        place = books.counts[HEAPED]
        books.counts[HEAPED] += 1
        books.lists[BY_TIME, place] = job
    _settle(books, place, time)


@inlined
def take(books: Books, job: int) -> None:
    """Remove a job that may be there."""
    place = books.lists[PLACE, job]
    if place == NONE:
        return
    books.lists[PLACE, job] = NONE
    books.counts[HEAPED] -= 1
    last = books.counts[HEAPED]
    if place < last:
        books.lists[BY_TIME, place] = books.lists[BY_TIME, last]
        _settle(books, place, books.times[last])


@inlined
def _settle(books: Books, place: int, time: float) -> None:
    """Let the job at this place rise above those that are later, then sink below those that are earlier."""
    lists, times, size = books.lists, books.times, books.counts[HEAPED]
    job = lists[BY_TIME, place]
    while place > 0:
        above = (place - 1) // 2
        if times[above] <= time:
            break
        times[place] = times[above]
        lists[BY_TIME, place] = lists[BY_TIME, above]
        lists[PLACE, lists[BY_TIME, above]] = place
        place = above
        books.counts[HEAP_STEPS] += 1
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and times[child + 1] < times[child]:
            child += 1
        if times[child] >= time:
            break
        times[place] = times[child]
        lists[BY_TIME, place] = lists[BY_TIME, child]
        lists[PLACE, lists[BY_TIME, child]] = place
        place = child
        books.counts[HEAP_STEPS] += 1
    times[place] = time
    lists[BY_TIME, place] = job
    lists[PLACE, job] = place

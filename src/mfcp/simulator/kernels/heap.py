# mypy: allow-untyped-decorators
"""Running jobs by the time at which something happens to them: an indexed binary heap."""

from __future__ import annotations

import numpy as np

from mfcp.compiling import inner
from mfcp.simulator.kernels.books import (
    BY_TIME,
    HEAP_STEPS,
    HEAPED,
    NONE,
    Books,
)


@inner
def put(books: Books, job: int) -> None:
    """Add a job, or move it to where its `next_at` belongs."""
    place = np.int64(books.jobs[job].place)
    if place == NONE:
        place = books.counts[HEAPED]
        books.counts[HEAPED] += 1
        books.lists[BY_TIME, place] = job
    _settle(books, place)


@inner
def take(books: Books, job: int) -> None:
    """Remove a job that may be there."""
    place = np.int64(books.jobs[job].place)
    if place == NONE:
        return
    books.jobs[job].place = NONE
    books.counts[HEAPED] -= 1
    last = books.counts[HEAPED]
    if place < last:
        books.lists[BY_TIME, place] = books.lists[BY_TIME, last]
        _settle(books, place)


@inner
def _settle(books: Books, place: int) -> None:
    """Let the job at this place rise above those that are later, then sink below those that are earlier."""
    jobs, lists, size = books.jobs, books.lists, books.counts[HEAPED]
    job = lists[BY_TIME, place]
    time = jobs[job].next_at
    while place > 0:
        above = lists[BY_TIME, (place - 1) // 2]
        if jobs[above].next_at <= time:
            break
        lists[BY_TIME, place] = above
        jobs[above].place = place
        place = (place - 1) // 2
        books.counts[HEAP_STEPS] += 1
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and jobs[lists[BY_TIME, child + 1]].next_at < jobs[lists[BY_TIME, child]].next_at:
            child += 1
        below = lists[BY_TIME, child]
        if jobs[below].next_at >= time:
            break
        lists[BY_TIME, place] = below
        jobs[below].place = place
        place = child
        books.counts[HEAP_STEPS] += 1
    lists[BY_TIME, place] = job
    jobs[job].place = place

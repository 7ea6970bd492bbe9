# mypy: allow-untyped-decorators
"""Running jobs by the time at which something happens to them: an indexed binary heap with its times beside it.

The place of a first job that is taken stays empty until another is put there: mostly a job ends where another starts.

Where jobs give way to others, bounds on rank and key lie there as well: who might come after a waiting job is found
without looking at each.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import inlined
from mfcp.simulator.kernels.books import (
    BY_TIME,
    GAP,
    HEAP_STEPS,
    HEAPED,
    KEY,
    NONE,
    PLACE,
    RANK,
    Books,
    ClockTerms,
)


@inlined
def put(books: Books, terms: ClockTerms, job: int, time: float) -> None:
    """Add a job to which something happens at this time, or move it to where that belongs."""
    place = books.lists[PLACE, job]
    if place == NONE:
        if books.counts[GAP]:
            books.counts[GAP], place = 0, 0
        else:
            place = books.counts[HEAPED]
            books.counts[HEAPED] += 1
        books.lists[BY_TIME, place] = job
    _settle(books, place, time, terms.rank[books.jobs[job].level], key_bound(books, job))


@inlined
def key_bound(books: Books, job: int) -> float:
    """The largest key that a job can have until it stops: keys fall while jobs run, unless their weight is negative."""
    row = books.jobs[job]
    return float(row.key if row.weight >= 0 else np.inf)


@inlined
def soonest(books: Books) -> float:
    """When something happens next; infinite where no job runs."""
    size, times = books.counts[HEAPED], books.times
    if not books.counts[GAP]:
        return float(times[0]) if size > 0 else np.inf
    first = times[1] if size > 1 else np.inf
    return float(min(first, times[2]) if size > 2 else first)


@inlined
def take_first(books: Books) -> int:
    """Remove the job to which something happens next, and leave its place empty."""
    running(books)
    job: int = books.lists[BY_TIME, 0]
    books.lists[PLACE, job] = NONE
    books.counts[GAP] = 1
    books.times[0] = -np.inf
    return job


@inlined
def running(books: Books) -> int:
    """Fill the first place if it is empty, and answer how many jobs run: so many are at the front of BY_TIME."""
    if books.counts[GAP]:
        books.counts[GAP] = 0
        _fill(books, np.int64(0))
    return int(books.counts[HEAPED])


@inlined
def take(books: Books, job: int) -> None:
    """Remove a job that may be there."""
    place = np.int64(books.lists[PLACE, job])
    if place != NONE:
        books.lists[PLACE, job] = NONE
        _fill(books, place)


@inlined
def _fill(books: Books, place: int) -> None:
    """Put the last job where one has been removed."""
    books.counts[HEAPED] -= 1
    last = books.counts[HEAPED]
    if place < last:
        rank, key = 0.0, 0.0
        if books.bounds.shape[1] > 0:
            rank, key = books.bounds[RANK, last], books.bounds[KEY, last]
        books.lists[BY_TIME, place] = books.lists[BY_TIME, last]
        _settle(books, place, books.times[last], rank, key)


@inlined
def _settle(books: Books, place: int, time: float, rank: float, key: float) -> None:
    """Let the job at this place rise above those that are later, then sink below those that are earlier."""
    lists, times, bounds, size = books.lists, books.times, books.bounds, books.counts[HEAPED]
    kept = bounds.shape[1] > 0
    job = lists[BY_TIME, place]
    while place > 0:
        above = (place - 1) // 2
        if times[above] <= time:
            break
        times[place] = times[above]
        if kept:
            bounds[RANK, place], bounds[KEY, place] = bounds[RANK, above], bounds[KEY, above]
        lists[BY_TIME, place] = lists[BY_TIME, above]
        lists[PLACE, lists[BY_TIME, above]] = place
        place = above
        books.counts[HEAP_STEPS] += 1
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size:  # then without a branch: the processor would guess wrongly every other time
            child += int(times[child + 1] < times[child])
        if times[child] >= time:
            break
        times[place] = times[child]
        if kept:
            bounds[RANK, place], bounds[KEY, place] = bounds[RANK, child], bounds[KEY, child]
        lists[BY_TIME, place] = lists[BY_TIME, child]
        lists[PLACE, lists[BY_TIME, child]] = place
        place = child
        books.counts[HEAP_STEPS] += 1
    times[place] = time
    if kept:
        bounds[RANK, place], bounds[KEY, place] = rank, key
    lists[BY_TIME, place] = job
    lists[PLACE, job] = place

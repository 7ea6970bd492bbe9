# mypy: allow-untyped-decorators
"""Decisions by a fixed order in which a job may pass the first in line if that is not believed to start later for it.

QUEUE has the jobs of each kind in order, `tree` the seconds that the waiting ones of them are believed to need, as
leaves of a tree of minima: the first of a kind that needs at most so many is found in a descent.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import inlined, uncounted
from mfcp.simulator.kernels.allocation import fit, total
from mfcp.simulator.kernels.books import (
    BY_TIME,
    HEAP_STEPS,
    LOOKS,
    NO,
    NONE,
    OTHERS,
    QUEUE,
    QUEUED,
    SOME,
    YES,
    Books,
    ClockTerms,
)
from mfcp.simulator.kernels.heap import running
from mfcp.simulator.kernels.progress import advance, believed, rounding, start


@uncounted
def run(books: Books, terms: ClockTerms) -> int:
    """Go on until nothing happens any more or the log is full.

    Returns:
        FINISHED_ALL, or LOG_FULL: give a longer log, and call again.
    """
    while True:
        new = advance(books, terms, np.inf)
        if new < 0:
            return int(new)
        for position in range(new):
            job = books.lists[OTHERS, position]
            _set_leaf(books, job, believed(books, job))
            books.kinds[books.jobs[job].kind].waiting += 1
        books.counts[QUEUED] += new
        if books.counts[QUEUED] > 0:
            _fill(books, terms)


@inlined
def _fill(books: Books, terms: ClockTerms) -> None:
    now, free, blocked, shadow, spare = books.clock[0], total(books), NO, np.inf, np.int64(0)
    for kind in range(len(books.kinds) - 1):
        books.kinds[kind].blocked = 0
    while True:
        job = _first(books, blocked, free, shadow, spare)
        if job == NONE:
            return
        row, early = books.jobs[job], True
        if row.gpus <= free and fit(books, job, terms.fit, NO):
            if blocked:
                early = now + believed(books, job) <= shadow
            _set_leaf(books, job, np.inf)
            books.kinds[row.kind].waiting -= 1
            start(books, terms, job)
            free -= row.gpus
            if not early:
                spare -= row.gpus
            continue
        books.kinds[row.kind].blocked = 1
        if not blocked:
            blocked = YES
            shadow, spare = _reserve(books, free, row.gpus)
            shadow += rounding(shadow)


@inlined
def _first(books: Books, blocked: bool, free: int, shadow: float, spare: int) -> int:
    """The first job in line; if that is blocked, the first that may pass it."""
    head = NONE
    for kind in range(len(books.kinds) - 1):
        if books.kinds[kind].waiting == 0 or books.kinds[kind].blocked or (blocked and books.kinds[kind].need > free):
            continue
        most = shadow if blocked and books.kinds[kind].need > spare else np.inf
        job = _leaf(books, kind, most)
        books.counts[LOOKS] += 1
        if job != NONE and (head == NONE or books.jobs[job].key < books.jobs[head].key):
            head = job
    return head


@inlined
def _set_leaf(books: Books, job: int, seconds: float) -> None:
    """What a job is believed to need; infinite if it does not wait."""
    kind = books.jobs[job].kind
    root, leaves = books.kinds[kind].root, (books.kinds[kind + 1].root - books.kinds[kind].root) // 2
    node = leaves + books.jobs[job].mark - books.kinds[kind].first
    books.tree[root + node] = seconds
    while node > 1:
        node //= 2
        books.tree[root + node] = min(books.tree[root + 2 * node], books.tree[root + 2 * node + 1])
        books.counts[HEAP_STEPS] += 1


@inlined
def _leaf(books: Books, kind: int, until: float) -> int:
    """The first waiting job of a kind that is believed to end by then; NONE if there is none."""
    now, root = books.clock[0], books.kinds[kind].root
    leaves, node = (books.kinds[kind + 1].root - root) // 2, 1
    if books.tree[root + 1] == np.inf or now + books.tree[root + 1] > until:
        return NONE
    while node < leaves:
        node *= 2
        least = books.tree[root + node]
        if least == np.inf or now + least > until:
            node += 1
        books.counts[HEAP_STEPS] += 1
    job: int = books.lists[QUEUE, books.kinds[kind].first + node - leaves]
    return job


@inlined
def _reserve(books: Books, free: int, need: int) -> tuple[float, int]:
    """When so many accelerators are believed to be free for the first in line, and how many others are then.

    Running jobs lie in SOME as a heap by their believed end, `due`.
    """
    size = running(books)
    books.counts[LOOKS] += size
    for k in range(size):
        job = books.lists[BY_TIME, k]
        books.lists[SOME, k] = job
        books.jobs[job].due = books.clock[0] + believed(books, job) * books.jobs[job].pace
    for place in range(size // 2 - 1, -1, -1):
        _sift(books, place, size)
    shadow = np.inf
    while size > 0:
        job = books.lists[SOME, 0]
        if free >= need and books.jobs[job].due > shadow:
            break
        free += books.jobs[job].gpus
        if free >= need:
            shadow = books.jobs[job].due
        size -= 1
        books.lists[SOME, 0] = books.lists[SOME, size]
        _sift(books, np.int64(0), size)
    return shadow, max(free - need, 0)


@inlined
def _sift(books: Books, place: int, size: int) -> None:
    """Let a job sink below those that are believed to end earlier."""
    job = books.lists[SOME, place]
    due = books.jobs[job].due
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and books.jobs[books.lists[SOME, child + 1]].due < books.jobs[books.lists[SOME, child]].due:
            child += 1
        if books.jobs[books.lists[SOME, child]].due >= due:
            break
        books.lists[SOME, place] = books.lists[SOME, child]
        place = child
    books.lists[SOME, place] = job

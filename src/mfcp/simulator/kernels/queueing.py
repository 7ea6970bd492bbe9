# mypy: allow-untyped-decorators
"""Decisions by a key: of each kind of jobs only the first can start, and only what it displaces is looked at.

Waiting jobs of a kind, which ask for the same, are a list as long as they come in their order, and from then on a heap
until none is left. Where the first of a kind finds no place, no other of that kind does. Running jobs that come before
all waiting ones stay where they are.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import inlined, uncounted
from mfcp.simulator.kernels.allocation import NO_ROOM, OPEN, fit, open_up, release, total
from mfcp.simulator.kernels.books import (
    ARRIVED,
    BY_TIME,
    EVENTS,
    HEAP_STEPS,
    KEY,
    LOOKS,
    NO,
    NOBODY,
    NONE,
    OTHERS,
    QUEUE,
    QUEUED,
    RANK,
    SOME,
    WAITING,
    YES,
    Books,
    ClockTerms,
)
from mfcp.simulator.kernels.heap import key_bound, running, soonest
from mfcp.simulator.kernels.progress import (
    ASKS,
    GRID,
    advance,
    arrive,
    arriving_at,
    before,
    has_room,
    move,
    rounding,
    set_key,
    start,
    stop,
)


@uncounted
def run(books: Books, terms: ClockTerms, asks: bool, given: bool) -> int:
    """Go on until nothing happens any more, the log is full, or the policy wants to give values.

    At each instant start what comes first as far as it fits; who runs stays.

    Args:
        given: whether values were just given, to decide by.

    Returns:
        FINISHED_ALL; LOG_FULL: give a longer log, and call again; ASKS: set values, call `reorder`, and call again.
    """
    while True:
        waiting = _waiting_at_next(books, terms, asks, given)
        if waiting < 0:
            return int(waiting)
        given = NO
        if waiting == 0:
            continue
        head, _, starting = _place(books, terms)
        for position in range(starting):
            start(books, terms, books.lists[OTHERS, position])
        if head != NONE and terms.skip == NOBODY and not asks:
            given = _queue_behind(books, terms, head)


# A kernel of its own: to displace is half of what there is to compile.
@uncounted
def run_preempting(books: Books, terms: ClockTerms, asks: bool, given: bool) -> int:
    """The same for policies that preempt: what comes first starts in place of what comes later."""
    while True:
        waiting = _waiting_at_next(books, terms, asks, given)
        if waiting < 0:
            return int(waiting)
        given = NO
        if waiting == 0:
            continue
        head, free, starting = _place(books, terms)
        if head != NONE:
            starting = _displace(books, terms, head, free, starting)
        for position in range(starting):
            start(books, terms, books.lists[OTHERS, position])


@inlined
def _waiting_at_next(books: Books, terms: ClockTerms, asks: bool, given: bool) -> int:
    """Go to the next instant, unless values were just given for this one, and queue who waits from then on.

    Returns:
        How many jobs wait; or what `run` returns.
    """
    if not given:
        new: int = advance(books, terms, np.inf)
        if new < 0:
            return new
        for position in range(new):
            _push(books, terms, books.lists[OTHERS, position])
        if asks:
            return ASKS
    return int(books.counts[QUEUED])


@inlined
def _place(books: Books, terms: ClockTerms) -> tuple[int, int, int]:
    """Give places to waiting jobs in their order, as far as they fit and may.

    Returns:
        The first that waits on, NONE if none could; accelerators that are left; how many are to start, those in OTHERS.
    """
    for kind in range(len(books.kinds) - 1):
        books.kinds[kind].blocked = 0
    free, starting = total(books), np.int64(0)
    while True:
        head = _first(books, terms, np.int64(-1) if terms.preempts else free)
        if head == NONE:
            break
        if books.jobs[head].gpus <= free and fit(books, head, terms.fit, NO):
            _pop(books, terms, books.jobs[head].kind)
            books.lists[OTHERS, starting] = head
            starting += 1
            free -= books.jobs[head].gpus
        elif terms.preempts or terms.skip == NOBODY:
            break
        else:
            books.kinds[books.jobs[head].kind].blocked = 1
    return head, free, starting  # type: ignore[return-value]


@inlined
def _queue_behind(books: Books, terms: ClockTerms, head: int) -> bool:
    """Queue the jobs that are submitted before one ends: while `head` waits for room and nobody passes it, none starts.

    Returns:
        Whether one of them comes before `head`, which is to be decided on.
    """
    end = soonest(books)
    while books.counts[ARRIVED] < len(books.jobs):
        now = books.jobs[books.counts[ARRIVED]].submit
        slack = rounding(now)
        arriving, now = arriving_at(books, now, slack)
        if end <= now + slack or not has_room(books, arriving):
            break
        books.clock[0] = now
        books.counts[EVENTS] += 1
        while books.counts[ARRIVED] < arriving:
            _push(books, terms, arrive(books))
        kind = books.kinds[books.jobs[head].kind]
        if books.lists[QUEUE, kind.first + kind.gone] != head:
            return True
    return False


@uncounted
def reorder(books: Books, terms: ClockTerms) -> None:
    """Make the heaps anew after values have changed."""
    for position in range(running(books)):
        set_key(books, books.lists[BY_TIME, position])
        if terms.preempts:
            books.bounds[KEY, position] = key_bound(books, books.lists[BY_TIME, position])
    for kind in range(len(books.kinds) - 1):
        _close_up(books, kind)
        first, size = books.kinds[kind].first, books.kinds[kind].waiting
        for position in range(size):
            set_key(books, books.lists[QUEUE, first + position])
        for position in range(size // 2 - 1, -1, -1):
            _down(books, terms, QUEUE, first, position, size)


@inlined
def _displace(books: Books, terms: ClockTerms, head: int, room: int, starting: int) -> int:
    """Place waiting jobs from `head` on, which does not fit, where running jobs after them have to give way.

    SOME are the running jobs after the first that waits; those from `low` on have not been looked at yet.

    Returns:
        How many jobs are to start, those in OTHERS.
    """
    jobs, lists = books.jobs, books.lists
    later, held = _open_later(books, terms, head)
    room += held
    if not _can_change(books, terms, room):
        return starting
    low, cut, disturbed, closed = np.int64(0), np.int64(0), False, False
    while True:
        if head == NONE and not disturbed:
            break  # all that is left stays as it is
        if cut > low:
            room -= _settle(books, terms, low, cut, cut == later)
            low = cut
        if head == NONE:
            break
        took = fit(books, head, terms.fit, YES) if jobs[head].gpus <= room else NO_ROOM
        if took != NO_ROOM:
            _pop(books, terms, jobs[head].kind)
            lists[OTHERS, starting] = head
            starting += 1
            room -= jobs[head].gpus
            disturbed = disturbed or took == OPEN
        elif terms.skip == NOBODY:
            closed = True
            break
        else:
            books.kinds[jobs[head].kind].blocked = 1
        head = _first(books, terms, room)
        cut = later if head == NONE else _part(books, terms, low, later, head)
    if closed:
        for position in range(low, later):
            release(books, lists[SOME, position])
            stop(books, lists[SOME, position])
    for position in range(later):
        if jobs[lists[SOME, position]].status == WAITING:
            _push(books, terms, lists[SOME, position])
    return starting


@inlined
def _settle(books: Books, terms: ClockTerms, low: int, high: int, last: bool) -> int:
    """Running jobs of SOME keep their places in order, or take others, or are stopped; accelerators of those that run.

    As many as possible are looked at together; only where they cannot all stay are they parted into earlier and later.
    If the earlier ones then can, the later ones cannot: they are parted without being tried.

    Args:
        last: whether nothing is open but what these hold.
    """
    lists, held, end, failing = books.lists, 0, high, NONE
    for node in range(len(books.nodes)):
        if last and books.nodes[node].free < 0:
            failing = high
    while low < high:
        reached, fine = low, end != failing
        while fine and reached < end:
            fine = open_up(books, lists[SOME, reached], np.int64(-1))
            reached += 1
        if fine:
            for position in range(low, end):
                held += books.jobs[lists[SOME, position]].gpus
            low = end
            end = failing if failing > low else high
            continue
        failing = end
        for position in range(low, reached):
            open_up(books, lists[SOME, position], np.int64(1))
        if end - low > 1:
            middle = (low + end) // 2
            lists[SOME, low], lists[SOME, middle] = lists[SOME, middle], lists[SOME, low]
            cut = _part(books, terms, low + 1, end, lists[SOME, low])
            lists[SOME, low], lists[SOME, cut - 1] = lists[SOME, cut - 1], lists[SOME, low]
            end = cut - 1 if cut == end else cut
            continue
        job = lists[SOME, low]
        release(books, job)
        if fit(books, job, terms.fit, YES):
            held += books.jobs[job].gpus
            move(books, terms, job)
        else:
            stop(books, job)
        low, end = end, high
    return held


@inlined
def _part(books: Books, terms: ClockTerms, low: int, high: int, job: int) -> int:
    """Bring those of SOME that come before a job to the front; where the others begin."""
    lists = books.lists
    for position in range(low, high):
        if before(books, terms, lists[SOME, position], job):
            lists[SOME, low], lists[SOME, position] = lists[SOME, position], lists[SOME, low]
            low += 1
    books.counts[LOOKS] += high - low
    return low


@inlined
def _open_later(books: Books, terms: ClockTerms, head: int) -> tuple[int, int]:
    """List the running jobs that come after the first waiting one in SOME, and open what they hold.

    Returns:
        How many there are, and how many accelerators they hold.
    """
    for node in range(len(books.nodes)):
        books.nodes[node].open = books.nodes[node].free
    later, held, rank, key = 0, 0, terms.rank[books.jobs[head].level], books.jobs[head].key - 2.0 / GRID
    size = running(books)
    books.counts[LOOKS] += size
    for position in range(size):
        own = books.bounds[RANK, position]
        if own < rank or (own == rank and books.bounds[KEY, position] < key):
            continue  # it was before the waiting job when its key was last computed, and keys fall while jobs run
        job = books.lists[BY_TIME, position]
        set_key(books, job)
        books.bounds[KEY, position] = key_bound(books, job)
        if before(books, terms, head, job):
            books.lists[SOME, later] = job
            later += 1
            held += books.jobs[job].gpus
            open_up(books, job, np.int64(1))
    return later, held


@inlined
def _can_change(books: Books, terms: ClockTerms, room: int) -> bool:
    """Whether a waiting job might start; or stops others by blocking them."""
    if terms.skip == NOBODY:
        return bool(terms.preempts or books.jobs[_first(books, terms, np.int64(-1))].gpus <= room)
    least = room + 1
    for kind in range(len(books.kinds) - 1):
        if books.kinds[kind].waiting > 0:
            least = min(least, books.kinds[kind].need)
    return bool(least <= room)


@inlined
def _first(books: Books, terms: ClockTerms, room: int) -> int:
    """The first waiting job of those kinds that may still start, by what they ask for; NONE if there is none.

    Args:
        room: accelerators that are left; negative: whatever a kind asks for.
    """
    head = NONE
    for kind in range(len(books.kinds) - 1):
        if books.kinds[kind].waiting == 0 or books.kinds[kind].blocked:
            continue
        if room >= 0 and terms.skip != NOBODY and books.kinds[kind].need > room:
            continue
        job = books.lists[QUEUE, books.kinds[kind].first + books.kinds[kind].gone]
        books.counts[LOOKS] += 1
        if head == NONE or before(books, terms, job, head):
            head = job
    return head


@inlined
def _push(books: Books, terms: ClockTerms, job: int) -> None:
    """Queue a waiting job."""
    set_key(books, job)
    own = books.kinds[books.jobs[job].kind]
    if own.waiting == 0:
        own.gone, own.in_order = 0, 1
    elif own.in_order:
        end = own.first + own.gone + own.waiting
        if end == books.kinds[books.jobs[job].kind + 1].first or before(books, terms, job, books.lists[QUEUE, end - 1]):
            _close_up(books, books.jobs[job].kind)
    first, place = own.first + own.gone, own.waiting
    own.waiting += 1
    books.counts[QUEUED] += 1
    if own.in_order:
        books.lists[QUEUE, first + place] = job
        return
    while place > 0:
        parent = (place - 1) // 2
        above = books.lists[QUEUE, first + parent]
        if before(books, terms, above, job):
            break
        books.lists[QUEUE, first + place] = above
        place = parent
        books.counts[HEAP_STEPS] += 1
    books.lists[QUEUE, first + place] = job


@inlined
def _pop(books: Books, terms: ClockTerms, kind: int) -> None:
    """The first of a kind is not queued any more; `start` counts it."""
    books.kinds[kind].waiting -= 1
    if books.kinds[kind].in_order:
        books.kinds[kind].gone += 1
        return
    first, size = books.kinds[kind].first, books.kinds[kind].waiting
    books.lists[QUEUE, first] = books.lists[QUEUE, first + size]
    _down(books, terms, QUEUE, first, 0, size)


@inlined
def _close_up(books: Books, kind: int) -> None:
    """Make a heap of a list: one that is in order is one already, and only moves to where the kind begins."""
    own = books.kinds[kind]
    if own.gone > 0:
        for place in range(own.waiting):
            books.lists[QUEUE, own.first + place] = books.lists[QUEUE, own.first + own.gone + place]
    own.gone = own.in_order = 0


@inlined
def _down(books: Books, terms: ClockTerms, heap: int, first: int, place: int, size: int) -> None:
    """Let a job sink below those before it, in a heap of so many jobs that begins at `first`."""
    if place >= size:
        return
    lists = books.lists
    job = lists[heap, first + place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and before(books, terms, lists[heap, first + child + 1], lists[heap, first + child]):
            child += 1
        if not before(books, terms, lists[heap, first + child], job):
            break
        lists[heap, first + place] = lists[heap, first + child]
        place = child
        books.counts[HEAP_STEPS] += 1
    lists[heap, first + place] = job

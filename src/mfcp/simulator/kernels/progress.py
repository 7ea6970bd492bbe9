# mypy: allow-untyped-decorators
"""What happens to jobs at an instant: ends, failures and demotions, then submissions; and how jobs start and stop.

Progress is added only when a job stops, or where the terms charge every running job at every event.
"""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.compiling import inlined, uncounted
from mfcp.simulator.kernels.allocation import release
from mfcp.simulator.kernels.books import (
    ARRIVED,
    BY_TIME,
    DEMOTED,
    DONE,
    END,
    EVENTS,
    EXECUTED,
    FAILED,
    FINISHED,
    FIRST_START,
    GIVEN_UP,
    HEAPED,
    LOGGED,
    LOST,
    MOVED,
    NO,
    NONE,
    OTHERS,
    QUEUED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPS,
    SUBMITTED,
    WAITING,
    YES,
    Books,
    ClockTerms,
)
from mfcp.simulator.kernels.heap import put, running, soonest, take, take_first

FINISHED_ALL, LOG_FULL, ASKS = -1, -2, -3
GRID = 2.0**20  # of a second


@inlined
def advance(books: Books, terms: ClockTerms, wake: float) -> int:
    """Go to the next instant: what ends, fails, is demoted or submitted then.

    What falls within some rounding errors of each other is one instant.

    Args:
        wake: when the caller next promotes a waiting job; infinite for never.

    Returns:
        How many jobs are to be queued now, the first of `others`; or FINISHED_ALL; or LOG_FULL: nothing has happened
        yet, give a longer log.
    """
    jobs, counts = books.jobs, books.counts
    if terms.charges_every_event:  # for the last event, and jobs that have started at it
        for position in range(running(books)):
            row = jobs[books.lists[BY_TIME, position]]
            row.charge = row.overhead
    now = soonest(books)
    if counts[ARRIVED] < len(jobs):
        now = min(now, jobs[counts[ARRIVED]].submit)
    now = min(now, wake)
    if now == np.inf:
        return FINISHED_ALL
    slack = rounding(now)
    arriving, now = arriving_at(books, now, slack)
    if not has_room(books, arriving):
        return LOG_FULL
    books.clock[0] = now
    counts[EVENTS] += 1
    new = 0
    while soonest(books) <= now + slack:
        job = take_first(books)
        if jobs[job].end <= now + slack:
            if _end(books, job):
                books.lists[OTHERS, new] = job
                new += 1
        else:
            add_progress(books, job)
            _demote(books, terms, job, YES)
            put(books, terms, job, plan(books, terms, job))
    if terms.charges_every_event:
        for position in range(running(books)):
            add_progress(books, books.lists[BY_TIME, position])
            _demote(books, terms, books.lists[BY_TIME, position], NO)
    while counts[ARRIVED] < arriving:
        books.lists[OTHERS, new] = arrive(books)
        new += 1
    return new


@inlined
def arriving_at(books: Books, now: float, slack: float) -> tuple[int, float]:
    """How many jobs have arrived after an instant, and the time of the last that belongs to it."""
    arriving = books.counts[ARRIVED]
    while arriving < len(books.jobs) and books.jobs[arriving].submit <= now + slack:
        now = max(now, books.jobs[arriving].submit)
        arriving += 1
    return arriving, now


@inlined
def has_room(books: Books, arriving: int) -> bool:
    """Whether the log has room for all that can happen at an instant after which so many jobs have arrived."""
    counts = books.counts
    rows = 4 * (arriving - counts[ARRIVED] + counts[QUEUED] + counts[HEAPED]) + 8
    return bool(counts[LOGGED] + rows <= len(books.log))


@inlined
def arrive(books: Books) -> int:
    """The next job is submitted; which one that is."""
    job = np.int32(books.counts[ARRIVED])
    books.counts[ARRIVED] += 1
    write(books, job, SUBMITTED)
    books.jobs[job].status = WAITING
    return job  # type: ignore[return-value]


@inlined
def rounding(time: float) -> float:
    """Seconds within which two times are equal."""
    return 1e-9 + 1e-13 * time


@inlined
def write(books: Books, job: int, event: int) -> None:
    """A row of the log."""
    row = books.log[books.counts[LOGGED]]
    books.counts[LOGGED] += 1
    row.time = books.clock[0]
    row.job = job
    row.event = event
    row.gpus = books.jobs[job].gpus
    cell = books.jobs[job].cell
    row.node = books.cells[cell, 0] if cell != NONE else NONE


@inlined
def add_progress(books: Books, job: int) -> None:
    """What a running job has done since it was last looked at."""
    row, elapsed = books.jobs[job], books.clock[0] - books.jobs[job].since
    books.results[EXECUTED, job] += elapsed
    row.left -= max(elapsed - row.charge, 0.0) / row.pace
    row.charge = max(row.charge - elapsed, 0.0)
    row.since = books.clock[0]


@inlined
def believed(books: Books, job: int) -> float:
    """Seconds at speed 1 that the policy believes to be left; NaN if it does not know."""
    row = books.jobs[job]
    left = row.left + row.more
    if row.status == RUNNING:
        left -= max(books.clock[0] - row.since - row.charge, 0.0) / row.pace
    return float(left if left > 0 or np.isnan(left) else 0.0)


@uncounted
def believed_of(books: Books, rows: Ints, left: Floats) -> None:
    """The same for some jobs, to `left`."""
    for position in range(len(rows)):
        left[position] = believed(books, rows[position])


@inlined
def set_key(books: Books, job: int) -> None:
    """A job's key now. Times are put on a fine grid, so that what is equal is not told apart by rounding."""
    row = books.jobs[job]
    row.key = row.value
    if row.weight != 0:
        row.key = np.floor((row.value + row.weight * believed(books, job)) * GRID + 0.5) / GRID


@inlined
def before(books: Books, terms: ClockTerms, job: int, other: int) -> bool:
    """Whether a job comes before another: by rank of the level, key, and submission where the terms say so."""
    first, second = terms.rank[books.jobs[job].level], terms.rank[books.jobs[other].level]
    if first != second:
        return bool(first < second)
    if books.jobs[job].key != books.jobs[other].key:
        return bool(books.jobs[job].key < books.jobs[other].key)
    return bool(terms.by_submission and job < other)


@inlined
def _demote(books: Books, terms: ClockTerms, job: int, forced: bool) -> None:
    """Levels by attained service.

    Args:
        forced: it was planned that the job leaves its level now, even if rounding left the service just short.
    """
    row, level = books.jobs[job], books.jobs[job].level
    attained = (books.results[EXECUTED, job] - row.forgiven) * row.gpus
    while level < len(terms.limits) and (forced or attained >= terms.limits[level]):
        level += 1
        forced = False
    if level > row.level:
        row.level = level
        row.mark = NONE
        write(books, job, DEMOTED)


@inlined
def _end(books: Books, job: int) -> bool:
    """The end of an attempt: the job is done, given up, or waits for the next; whether it waits."""
    row = books.jobs[job]
    books.results[EXECUTED, job] += books.clock[0] - row.since
    row.since = books.clock[0]
    attempt, attempts = row.attempt, books.fails.shape[1]
    if attempt >= attempts or books.fails[job, attempt] < 0:
        write(books, job, FINISHED)
        release(books, job)
        row.status = DONE
        books.results[END, job] = books.clock[0]
        row.left = 0.0
        return False
    last = attempt + 1 >= attempts
    write(books, job, GIVEN_UP if last else FAILED)
    release(books, job)
    row.attempt = attempt + 1
    books.results[LOST, job] = books.results[EXECUTED, job] * row.gpus  # all attempts so far have failed
    row.left = row.duration
    if last:
        row.status = DONE
    else:
        row.status = WAITING
    return not last


@inlined
def start(books: Books, terms: ClockTerms, job: int) -> None:
    """A placed job, which is not queued any more, runs."""
    books.counts[QUEUED] -= 1
    _run(books, terms, job)
    write(books, job, STARTED)


@inlined
def move(books: Books, terms: ClockTerms, job: int) -> None:
    """A running job has been placed elsewhere."""
    add_progress(books, job)
    _run(books, terms, job)
    write(books, job, MOVED)


@inlined
def _run(books: Books, terms: ClockTerms, job: int) -> None:
    row, cell, slowest = books.jobs[job], books.jobs[job].cell, np.inf
    while cell != NONE:
        slowest = min(slowest, books.speed[job, books.nodes[books.cells[cell, 0]].type])
        cell = books.cells[cell, 2]
    row.pace = 1.0 / slowest
    row.since = books.clock[0]
    first = np.isnan(books.results[FIRST_START, job])
    row.charge = 0.0 if first and terms.first_is_free else row.overhead
    if first:
        books.results[FIRST_START, job] = books.clock[0]
    row.status = RUNNING
    put(books, terms, job, plan(books, terms, job))


@inlined
def stop(books: Books, job: int) -> None:
    """A running job, which has given back what it held, waits; to be queued again."""
    row = books.jobs[job]
    add_progress(books, job)
    take(books, job)
    write(books, job, STOPPED)
    row.status = WAITING
    books.results[STOPS, job] += 1


@inlined
def plan(books: Books, terms: ClockTerms, job: int) -> float:
    """When a running job ends or reaches the limit of its level, if nothing else happens to it; the end is noted."""
    row, now = books.jobs[job], books.clock[0]
    left = row.left
    if row.attempt < books.fails.shape[1] and books.fails[job, row.attempt] >= 0:
        left -= books.fails[job, row.attempt]
    row.end = now + left * row.pace
    if terms.end_has_charge:
        row.end += row.charge
    if row.level < len(terms.limits):
        seconds = terms.limits[row.level] / row.gpus
        if terms.whole_limits:
            seconds = np.ceil(seconds)
        return float(min(row.end, max((seconds - (books.results[EXECUTED, job] - row.forgiven)) + now, now)))
    return float(row.end)

# mypy: allow-untyped-decorators
"""Decisions that rank and place every job anew, as published simulators do: the order of equal jobs has a history.

SOME is the list of active jobs in their order.
"""

from __future__ import annotations

import numpy as np

from mfcp.compiling import inlined, uncounted
from mfcp.simulator.kernels.allocation import fit, forget, open_up, release, total
from mfcp.simulator.kernels.books import (
    ARRIVED,
    BY_TIME,
    DONE,
    EXECUTED,
    LISTED,
    LOOKS,
    NO,
    NOBODY,
    NONE,
    OTHERS,
    PROMOTED,
    QUEUED,
    RUNNING,
    SOME,
    WAITING,
    YES,
    Books,
    ClockTerms,
)
from mfcp.simulator.kernels.heap import put, running
from mfcp.simulator.kernels.progress import (
    ASKS,
    advance,
    before,
    believed,
    move,
    plan,
    rounding,
    start,
    stop,
    write,
)


@uncounted
def run(books: Books, terms: ClockTerms, asks: bool) -> int:
    """Go on until nothing happens any more, the log is full, or the policy wants to give values.

    Returns:
        FINISHED_ALL; LOG_FULL: give a longer log, and call again; ASKS: set values, call `decide`, and call again.
    """
    while True:
        listed = books.counts[ARRIVED]
        wake = _next_promotion(books, terms)
        new = advance(books, terms, wake)
        if new < 0:
            return int(new)
        books.counts[QUEUED] += new
        for job in range(listed, books.counts[ARRIVED]):  # one that has failed is still in the list
            books.lists[SOME, books.counts[LISTED]] = job
            books.counts[LISTED] += 1
        if wake < np.inf:
            _promote(books, terms)
        if asks:
            return ASKS
        decide(books, terms)


@uncounted
def decide(books: Books, terms: ClockTerms) -> None:
    """Rank the jobs, choose, and start and stop what has changed."""
    _compact(books, terms)
    _rank(books, terms)
    _choose(books, terms)
    if terms.running_first:
        _partition(books, terms)


@inlined
def _next_promotion(books: Books, terms: ClockTerms) -> float:
    """When the first waiting job has waited `promote` times as long as it ran; infinite if none does."""
    first = np.inf
    if terms.promote < np.inf:
        for position in range(books.counts[LISTED]):
            first = min(first, _promotion(books, terms, books.lists[SOME, position]))
    return first


@inlined
def _promotion(books: Books, terms: ClockTerms, job: int) -> float:
    """When a job is to be promoted; infinite if it runs, or has not run since the last time."""
    row = books.jobs[job]
    ran = books.results[EXECUTED, job] - row.forgiven
    return float(row.since + terms.promote * ran if row.status == WAITING and ran > 0 else np.inf)


@inlined
def _promote(books: Books, terms: ClockTerms) -> None:
    """Jobs that have waited long enough go to the first level, as if they had not run yet."""
    for position in range(books.counts[LISTED]):
        job = books.lists[SOME, position]
        if _promotion(books, terms, job) <= books.clock[0] + rounding(books.clock[0]):
            row = books.jobs[job]
            row.forgiven, row.level = books.results[EXECUTED, job], np.int32(0)
            write(books, job, PROMOTED)


@inlined
def _compact(books: Books, terms: ClockTerms) -> None:
    """Only jobs that wait or run stay in the order; those just demoted go last where the terms say so."""
    kept, late = 0, 0
    for position in range(books.counts[LISTED]):
        job = books.lists[SOME, position]
        if books.jobs[job].status == DONE:
            continue
        if terms.demoted_last and books.jobs[job].mark == NONE:
            books.lists[OTHERS, late] = job
            late += 1
            continue
        books.lists[SOME, kept] = job
        kept += 1
    for k in range(late):
        books.jobs[books.lists[OTHERS, k]].mark = 0
        books.lists[SOME, kept] = books.lists[OTHERS, k]
        kept += 1
    books.counts[LISTED] = kept


@inlined
def _rank(books: Books, terms: ClockTerms) -> None:
    """Keys, then a stable insertion sort: the order of the last event is nearly right."""
    books.counts[LOOKS] += books.counts[LISTED]
    for position in range(books.counts[LISTED]):
        row = books.jobs[books.lists[SOME, position]]
        row.key = row.value
        if row.weight != 0:
            row.key += row.weight * believed(books, books.lists[SOME, position])
    for position in range(1, books.counts[LISTED]):
        job, hole = books.lists[SOME, position], position
        while hole > 0 and before(books, terms, job, books.lists[SOME, hole - 1]):
            books.lists[SOME, hole] = books.lists[SOME, hole - 1]
            hole -= 1
        books.lists[SOME, hole] = job


@inlined
def _choose(books: Books, terms: ClockTerms) -> None:
    """Place all jobs again, in order; `mark` says which are to run."""
    jobs, room, starting = books.jobs, total(books), 0
    for position in range(running(books)):
        room += jobs[books.lists[BY_TIME, position]].gpus
    for node in range(len(books.nodes)):
        books.nodes[node].open = books.nodes[node].size
        if not terms.sticky:
            books.nodes[node].free = books.nodes[node].size
    for position in range(books.counts[LISTED]):
        job = books.lists[SOME, position]
        row = jobs[job]
        runs, node = row.status == RUNNING, books.cells[row.cell, 0] if row.cell != NONE else NONE
        row.mark, stays = 0, False
        if not terms.sticky:
            forget(books, job)
            row.mark = row.gpus <= room and fit(books, job, terms.fit, NO) > 0
            stays = row.cell != NONE and books.cells[row.cell, 0] == node
        elif runs and row.gpus <= room and open_up(books, job, np.int64(-1)):
            row.mark, stays = 1, True
        else:
            if runs and row.gpus <= room:
                open_up(books, job, np.int64(1))
            release(books, job)
            row.mark = row.gpus <= room and fit(books, job, terms.fit, YES) > 0
        if row.mark:
            room -= row.gpus
            if runs and not stays:
                move(books, terms, job)
            elif not runs:
                books.lists[OTHERS, starting] = job
                starting += 1
        elif terms.skip == NOBODY:
            room = 0
    for position in range(books.counts[LISTED]):
        job = books.lists[SOME, position]
        if jobs[job].status == RUNNING and not jobs[job].mark:
            stop(books, job)
            books.counts[QUEUED] += 1
    if terms.charges_every_event:
        for position in range(books.counts[LISTED]):
            if jobs[books.lists[SOME, position]].status == RUNNING:
                job = books.lists[SOME, position]
                put(books, terms, job, plan(books, terms, job))
    for position in range(starting):
        start(books, terms, books.lists[OTHERS, position])


@inlined
def _partition(books: Books, terms: ClockTerms) -> None:
    """Within a level, jobs that run come before those that wait; otherwise the order stays."""
    for position in range(1, books.counts[LISTED]):
        job = books.lists[SOME, position]
        if books.jobs[job].status != RUNNING:
            continue
        rank, hole = terms.rank[books.jobs[job].level], position
        while hole > 0:
            other = books.lists[SOME, hole - 1]
            if books.jobs[other].status == RUNNING or terms.rank[books.jobs[other].level] != rank:
                break
            books.lists[SOME, hole] = other
            hole -= 1
        books.lists[SOME, hole] = job

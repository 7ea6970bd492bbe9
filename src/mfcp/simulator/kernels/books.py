# mypy: allow-untyped-decorators
"""What compiled kernels read and write: jobs, nodes, the terms of the clock, the log."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.compiling import uncounted

WAITING, RUNNING, DONE = 1, 2, 3  # status of a job; 0 before it is submitted
NONE: int = np.int32(-1)  # type: ignore[assignment]
YES: Any = np.bool_(True)
NO: Any = np.bool_(False)
"""What kernels hand to kernels is of a type of NumPy: for each value of Python's own, Numba compiles anew."""

ANY, NOBODY, BACKFILL = 0, 1, 2  # which jobs may pass one that does not fit
FIRST, BEST, FASTEST = 0, 1, 2  # which node of those with room

JOB = np.dtype([
    ("submit", "f8"), ("duration", "f8"), ("overhead", "f8"), ("value", "f8"), ("weight", "f8"), ("more", "f8"),
    ("left", "f8"), ("since", "f8"), ("charge", "f8"), ("pace", "f8"), ("end", "f8"), ("key", "f8"), ("due", "f8"),
    ("forgiven", "f8"), ("gpus", "i4"), ("kind", "i4"), ("level", "i4"), ("attempt", "i4"), ("status", "i4"),
    ("cell", "i4"), ("mark", "i4"),
], align=True)  # fmt: skip
"""A job, in seconds and accelerators.

`submit`, `duration` (at speed 1), `overhead` and `gpus` are true of it; `value` and `weight` make its key (see
`mfcp.simulator.policies.base.Keys`); `more` is what the policy believes it needs beyond its true duration, NaN if it
does not know. `left` of the present attempt at speed 1; `forgiven`, the seconds executed before it was promoted last;
`since` when progress was last added, or the job stopped; `charge` still to pass without progress; `pace` seconds for a
second of progress; `end` of the attempt; `key` as it was last computed; `due`, the believed end. `kind`: jobs of a kind
ask for the same accelerators and run on the same types. `cell`, the first of what it holds; `mark`, of the decision
under way.
"""
_KEPT = 32 << 20  # bytes; one that is larger goes back at once
_kept: list[Any] = []  # of the last run: memory that was new to the process took a quarter of one
RESULTS = FIRST_START, END, EXECUTED, LOST, STOPS = range(5)
"""What comes of a job: seconds of its first start and of its end, NaN until then; seconds on accelerators, charges
included; accelerator-seconds of failed attempts; how often it was taken off. Apart from what else is known of it, so
that nobody goes through all of that to read them.
"""
NODE = np.dtype([("size", "i4"), ("type", "i4"), ("free", "i4"), ("open", "i4")], align=True)
"""Accelerators of a node: all, free now, and free or held by a job that has not kept its place yet in this decision."""
KIND = np.dtype([
    ("first", "i8"), ("root", "i8"), ("waiting", "i8"), ("gone", "i8"), ("in_order", "i8"), ("need", "i8"),
    ("blocked", "i8"),
])  # fmt: skip
"""Jobs that ask for the same: where they begin in QUEUE and in the tree, how many wait, whether they have all come in
their order, and if so how many places before them are empty; how many accelerators they ask for, and whether the
decision under way has found no place for one."""
ROW = np.dtype([("time", "f8"), ("job", "i4"), ("gpus", "i4"), ("node", "i4"), ("event", "i1")])
"""A row of the log."""


class ClockTerms(NamedTuple):
    """The semantics of a clock of events and what a policy fixes, as numbers; see `mfcp.simulator.semantics`.

    Attributes:
        limits: (L,) accelerator-seconds of attained service at which a job changes its level.
        rank: (L + 1,) of each level.
        promote: a waiting job is promoted after this many times the seconds that it ran; infinite for never.
    """

    preempts: bool
    charges_every_event: bool
    first_is_free: bool
    end_has_charge: bool
    whole_limits: bool
    demoted_last: bool
    running_first: bool
    by_submission: bool
    sticky: bool
    skip: int
    fit: int
    limits: Floats
    rank: Floats
    promote: float


class Books(NamedTuple):
    """Where n jobs of k kinds are, on L nodes. Few arrays, because each costs seconds of compilation.

    Attributes:
        jobs: (n,) `JOB`; nodes: (L,) `NODE`; kinds: (k + 1,) `KIND`, the last of them empty; log: (capacity,) `ROW`.
        results: (5, n) of `RESULTS`.
        speed: (n, K) by type of accelerator; 0 where a job does not run.
        fails: (n, attempts) seconds that are left when an attempt fails, at speed 1; negative where it succeeds.
        lists: (5, n): BY_TIME, the jobs that run, a heap; QUEUE, the jobs of each kind, whose order its user fixes;
            SOME and OTHERS, room for two more lists of jobs; PLACE, where each job is in the heap, apart from what else
            is known of it, because the heap changes it most.
        tree: of the jobs of each kind; what it holds its user says.
        times: (n,) when something happens to the jobs of BY_TIME.
        bounds: (2, n) of the same jobs, the rank of their level and the largest key that they can have now: theirs when
            it was last computed where keys fall while jobs run, infinite where they rise. Empty if nothing preempts.
        cells: (C, 3) node, accelerators, next cell.
        clock: (1,) now; counts: (COUNTS,).
    """

    jobs: Any
    nodes: Any
    kinds: Any
    log: Any
    results: Floats
    speed: Floats
    fails: Floats
    lists: Any
    tree: Floats
    times: Floats
    bounds: Floats
    cells: Any
    clock: Floats
    counts: Ints


BY_TIME, QUEUE, SOME, OTHERS, PLACE, LISTS = range(6)
RANK, KEY = range(2)
HEAPED, ARRIVED, FREE_CELL, LISTED, QUEUED, LOGGED, EVENTS, HEAP_STEPS, LOOKS, GAP, COUNTS = range(11)
"""Places of `counts`: jobs that run, that have arrived; the first unused cell; jobs of a list that is kept, that wait;
rows of the log; how much was done: events, steps in heaps, jobs that decisions looked at; and whether the first place
of BY_TIME is empty."""

_NUMBERS: Any = np.arange(11)
SUBMITTED, STARTED, STOPPED, MOVED, RESIZED, DEMOTED, FAILED, FINISHED, GIVEN_UP, DECLINED, PROMOTED = _NUMBERS
EVENT_NAMES = (
    "submitted", "started", "stopped", "moved", "resized", "demoted", "failed", "finished", "given_up", "declined",
    "promoted",
)  # fmt: skip
"""All that a log can tell, by its number; `mfcp.simulator.log` says what each means for what a job holds."""


def fresh_jobs(
    submit: Floats, duration: Floats, overhead: Floats, gpus: Ints, value: Floats, weight: Floats, expected: Floats
) -> Any:
    """(n,) `JOB` to which nothing has happened; arguments are (n,), `expected` the believed durations."""
    rows = np.empty(0, JOB)
    with suppress(IndexError):
        rows = _kept.pop()
    rows = rows[: len(submit)] if len(rows) >= len(submit) else np.empty(len(submit), JOB)
    _enter(rows, np.array([submit, duration, overhead, gpus, value, weight, expected]))
    return rows


# Job by job: NumPy goes through all of them for each field, which took a sixth of a run.
@uncounted
def _enter(rows: Any, given: Floats) -> None:
    """Fill in every field; (7, n) what `fresh_jobs` was given."""
    for job in range(len(rows)):
        row = rows[job]
        row.submit, row.duration, row.overhead, row.gpus = given[0, job], given[1, job], given[2, job], given[3, job]
        row.value, row.weight, row.more = given[4, job], given[5, job], given[6, job] - given[1, job]
        row.left, row.since, row.charge, row.pace, row.end, row.key = given[1, job], 0.0, 0.0, 0.0, np.nan, 0.0
        row.due, row.forgiven, row.kind, row.level, row.attempt, row.status = 0.0, 0.0, 0, 0, 0, 0
        row.cell, row.mark = NONE, 0


def keep(jobs: Any) -> None:
    """Keep the memory of jobs that are not used any more for those of the next run."""
    if jobs.nbytes <= _KEPT and not _kept:
        _kept.append(jobs)


def fresh_books(
    jobs: Any, sizes: Ints, types: Ints, speed: Floats, fails: Floats, rows: int, *, by_demand: bool = True,
    preempts: bool = True,
) -> Books:  # fmt: skip
    """Nothing has arrived.

    Args:
        jobs: of `fresh_jobs`.
        sizes, types: (L,) of the nodes.
        speed, fails: see `Books`.
        rows: room in the log.
        by_demand: whether jobs that ask for the same are a kind; otherwise all jobs are one, which is enough where none
            passes another.
        preempts: whether running jobs give way to others, so that `bounds` are kept.
    """
    n = len(jobs)
    where = np.unique(speed > 0, axis=0, return_inverse=True)[1].ravel() if speed.shape[1] > 1 else 0
    one = np.zeros(min(n, 1), np.int64)
    if by_demand:
        demand = jobs["gpus"].astype(np.int64) + (where << 32)  # numbers sort faster than rows
        _, one, kind = np.unique(demand, return_index=True, return_inverse=True)
        jobs["kind"] = kind.ravel()
    count = np.bincount(jobs["kind"], minlength=len(one)) if by_demand else np.full(len(one), n)
    nodes, kinds = np.zeros(len(sizes), NODE), np.zeros(len(one) + 1, KIND)
    nodes["size"], nodes["type"], nodes["free"] = sizes, types, sizes
    kinds["first"][1:] = np.cumsum(count)
    kinds["root"][1:] = np.cumsum(2 * 2 ** np.ceil(np.log2(count)).astype(np.int64))
    kinds["need"][:-1] = jobs["gpus"][one]
    cells = np.full((2 * int(sizes.sum()) + 1, 3), NONE, np.int32)  # twice as many are in use while jobs move
    cells[:-1, 2] = np.arange(1, len(cells))
    lists, results = np.zeros((LISTS, n), np.int32), np.empty((len(RESULTS), n))
    lists[PLACE], results[:EXECUTED], results[EXECUTED:] = NONE, np.nan, 0.0
    return Books(
        jobs, nodes, kinds, np.empty(rows, ROW), results, speed, fails, lists, np.empty(0), np.empty(n),
        np.zeros((2, n * preempts)), cells, np.zeros(1), np.zeros(COUNTS, np.int64),
    )  # fmt: skip


def longer_log(books: Books) -> Books:
    """The same with twice the room for the log."""
    log = np.empty(2 * len(books.log), ROW)
    log[: len(books.log)] = books.log
    return books._replace(log=log)

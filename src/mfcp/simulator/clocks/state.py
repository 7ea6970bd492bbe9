"""Columns that compiled clocks read and write: jobs, ranking, rules, nodes, and the state of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mfcp.arrays import Floats, Ints

ABSENT, WAITING, RUNNING, DONE = 0, 1, 2, 3
SUBMITTED, STARTED, STOPPED, MOVED, DEMOTED, FAILED, FINISHED = range(7)
KINDS = ("submitted", "started", "stopped", "moved", "demoted", "failed", "finished")
NONE = -1


class Work(NamedTuple):
    """What is true of n jobs.

    Attributes:
        submit: (n,) seconds, ascending.
        gpus: (n,) accelerators, all or none.
        iterations: (n,) to do.
        step: (n,) seconds of one on a device of speed 1.
        speed: (n, K) by type of accelerator; 0 where it does not run.
        left: (n, attempts) iterations that are left when an attempt fails; negative where it succeeds.
        overhead: (n,) seconds without progress, whenever the rules charge them.
    """

    submit: Floats
    gpus: Ints
    iterations: Floats
    step: Floats
    speed: Floats
    left: Floats
    overhead: Floats


class Ranking(NamedTuple):
    """How a policy orders jobs: by (rank of the level, value + weight × seconds believed to be left), ascending.

    A job's level is the number of `limits` that its attained service, accelerators × seconds, has reached.

    Attributes:
        value, weight: (n,).
        offset: (n,) iterations that the belief adds to those that are left.
        limits: (L,) accelerator-seconds, ascending.
        rank: (L + 1,) of each level.
    """

    value: Floats
    weight: Floats
    offset: Floats
    limits: Floats
    rank: Floats


class Terms(NamedTuple):
    """Semantics of a clock of events, as numbers; see `mfcp.simulator.semantics`."""

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


ANY, NOBODY, BACKFILL = 0, 1, 2
FIRST, BEST, FASTEST = 0, 1, 2


class Nodes(NamedTuple):
    """Accelerators of L nodes: (L,) how many, of which type, and how many are free."""

    size: Ints
    type: Ints
    free: Ints


class State(NamedTuple):
    """Where n jobs are.

    Attributes:
        status: (n,) ABSENT, WAITING, RUNNING or DONE.
        remaining: (n,) iterations of the present attempt.
        executed: (n,) seconds on accelerators, charges included.
        since: (n,) when progress was last added.
        charge: (n,) seconds that the present stretch still passes without progress.
        pace: (n,) seconds of an iteration where the job runs.
        level, attempt: (n,).
        end, next_at: (n,) when the job ends, and when something happens to it.
        started, finished: (n,) first start and last end; NaN before.
        lost: (n,) accelerator-seconds of failed attempts; stops: (n,) how often it was taken off.
        order: (n,) jobs that are ranked, `counts[ORDERED]` of them; chosen: (n,) marks of those that are to run.
        heap: (2n,) jobs by `next_at`; its second half is for notes. place: (n,) where a job is in it.
        cell: (n,) first cell of a job's accelerators; cells: (C, 3) node, accelerators, next cell.
        clock: (1,) now; counts: (COUNTS,).
    """

    status: Ints
    remaining: Floats
    executed: Floats
    since: Floats
    charge: Floats
    pace: Floats
    level: Ints
    attempt: Ints
    end: Floats
    next_at: Floats
    started: Floats
    finished: Floats
    lost: Floats
    stops: Ints
    order: Ints
    key: Floats
    chosen: Ints
    heap: Ints
    place: Ints
    cell: Ints
    cells: Ints
    clock: Floats
    counts: Ints


ORDERED, HEAPED, ARRIVED, FREE_CELL, EVENTS, HEAP_STEPS, LOGGED, QUEUED, NEW, RANKED, COUNTS = range(11)


class Log(NamedTuple):
    """What happened: (capacity,) when, to which job, what, on how many accelerators, on which first node."""

    time: Floats
    job: Ints
    kind: Ints
    gpus: Ints
    node: Ints


def fresh_state(work: Work, accelerators: int) -> State:
    """Nothing has arrived.

    Args:
        work: the jobs.
        accelerators: of all nodes; twice as many cells can be in use, while jobs move.
    """
    n = len(work.submit)
    cells = np.full((2 * accelerators + 1, 3), NONE, np.int64)
    cells[:, 2] = np.arange(1, len(cells) + 1)
    cells[-1, 2] = NONE
    integers: Any = {name: np.zeros(n, np.int64) for name in ("status", "level", "attempt", "stops", "order", "chosen")}
    zeros: Any = {name: np.zeros(n) for name in ("executed", "since", "charge", "pace", "lost", "key")}
    unknown: Any = {name: np.full(n, np.nan) for name in ("end", "next_at", "started", "finished")}
    marks: Any = {name: np.full(n, NONE, np.int64) for name in ("place", "cell")} | {"heap": np.full(2 * n, NONE)}
    return State(
        **integers, **zeros, **unknown, **marks, remaining=work.iterations.copy(), cells=cells,
        clock=np.zeros(1), counts=np.zeros(COUNTS, np.int64),
    )  # fmt: skip


def fresh_log(capacity: int) -> Log:
    """Room for so many events."""
    return Log(np.empty(capacity), *(np.empty(capacity, np.int64) for _ in range(4)))


def longer_log(log: Log, used: int) -> Log:
    """The same log with twice the room."""
    longer = fresh_log(2 * len(log.time))
    for new, old in zip(longer, log, strict=True):
        new[:used] = old[:used]
    return longer

# mypy: allow-untyped-decorators
"""The clock of rounds: who runs is decided every round, how types are shared only at resets.

A policy gives each job a share of the time on each type of accelerator. In a round the types are filled in the order
of share over time received, so that over many rounds everybody gets theirs (Narayanan et al., "Heterogeneity-aware
cluster scheduling", OSDI 2020). The next round starts when the last job of this one is through.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.compiling import uncounted
from mfcp.simulator.clocks.state import FINISHED, MOVED, STARTED, STOPPED, SUBMITTED, Log

THROUGH, RESET, SHUFFLE, LOG_FULL = range(4)
NEVER_GIVEN = 1e9  # what a share weighs on a type that the job has not been on


class RoundTerms(NamedTuple):
    """Semantics of the clock as numbers; see `mfcp.simulator.semantics.Rounds`."""

    round_s: float
    reset_s: float
    start_s: float
    cut_s: float
    needs_share: bool
    shuffles: bool


class Table(NamedTuple):
    """n jobs on K types.

    Attributes:
        submit: (n,) seconds, ascending.
        gpus: (n,) accelerators.
        steps: (n,) to do.
        speed: (n, K) steps per second on the accelerators asked for.
        size: (K,) accelerators of each type.
    """

    submit: Floats
    gpus: Ints
    steps: Floats
    speed: Floats
    size: Ints


class Ledger(NamedTuple):
    """Where the jobs are.

    Attributes:
        left: (n,) steps.
        share: (n, K) of the last reset; given: (n,) whether the reset knew the job.
        time: (n, K) seconds on a type since the reset; total: (K,) of all jobs.
        deficit: (n, K) seconds owed from earlier resets.
        active: (n,) jobs that have come and not gone, in order of their coming, `counts[ACTIVE]` of them.
        place: (n,) the type in this round, or -1; before: (n,) in the last.
        order: (n,) room to sort in; types: (K,) the order in which types are filled.
        started, finished: (n,) seconds, NaN before; executed: (n,) seconds on accelerators.
        stops: (n,) how often it was taken off.
        clock: (2,) now, and the time of the last reset; counts: (6,).
    """

    left: Floats
    share: Floats
    given: Bools
    time: Floats
    total: Floats
    deficit: Floats
    active: Ints
    place: Ints
    before: Ints
    order: Ints
    types: Ints
    started: Floats
    finished: Floats
    executed: Floats
    stops: Ints
    clock: Floats
    counts: Ints


ACTIVE, ARRIVED, CHANGED, ROUNDS, RESETS, LOGGED = range(6)


def fresh_ledger(table: Table) -> Ledger:
    """Nothing has come."""
    n, kinds = table.speed.shape
    grids = [np.zeros((n, kinds)) for _ in range(3)]
    return Ledger(
        table.steps.copy(), grids[0], np.zeros(n, bool), grids[1], np.zeros(kinds), grids[2],
        np.zeros(n, np.int64), np.full(n, -1), np.full(n, -1), np.zeros(n, np.int64), np.arange(kinds),
        np.full(n, np.nan), np.full(n, np.nan), np.zeros(n), np.zeros(n, np.int64), np.zeros(2), np.zeros(6, np.int64),
    )  # fmt: skip


@uncounted
def run_rounds(table: Table, terms: RoundTerms, ledger: Ledger, log: Log, resume: int, last: int) -> int:
    """Go on until all jobs up to `last` are through, or the caller has to do something.

    Args:
        resume: what was returned last, and the caller has done; THROUGH at the first call.
        last: number of the last job that anybody waits for.

    Returns:
        THROUGH; RESET: call `settle`, give new shares, and go on; SHUFFLE: give `types` another order, and go on;
        LOG_FULL: give a longer log, and go on.
    """
    while True:
        if resume in (THROUGH, LOG_FULL):
            if not _room(table, ledger, log):
                return LOG_FULL
            _arrive(table, terms, ledger, log)
            if _due(terms, ledger):
                return RESET
        if resume != SHUFFLE and terms.shuffles:
            return SHUFFLE
        resume = THROUGH
        if _fill(table, terms, ledger):
            _tell(table, ledger, log)
            _pass(table, terms, ledger, log)
        elif ledger.counts[ARRIVED] < len(table.submit):
            ledger.clock[0] = max(ledger.clock[0], table.submit[ledger.counts[ARRIVED]])
        elif ledger.counts[ACTIVE] == 0:
            return THROUGH
        else:
            ledger.clock[0] = ledger.clock[1] + terms.reset_s  # nobody fits the shares: wait for the next
            ledger.counts[CHANGED] = 1
        if ledger.counts[ACTIVE] == 0 and ledger.counts[ARRIVED] == len(table.submit):
            return THROUGH
        if ledger.counts[ARRIVED] > last and _none_up_to(ledger, last):
            return THROUGH


@uncounted
def _room(table: Table, ledger: Ledger, log: Log) -> bool:
    """Whether the log has room for all that can happen in a round."""
    arriving = ledger.counts[ARRIVED]
    while arriving < len(table.submit) and table.submit[arriving] <= ledger.clock[0]:
        arriving += 1
    most = 4 * (arriving - ledger.counts[ARRIVED] + ledger.counts[ACTIVE])
    return bool(ledger.counts[LOGGED] + most <= len(log.time))


@uncounted
def _write(ledger: Ledger, log: Log, time: float, job: int, kind: int, gpus: int) -> None:
    row = ledger.counts[LOGGED]
    ledger.counts[LOGGED] += 1
    log.time[row] = time
    log.job[row] = job
    log.kind[row] = kind
    log.gpus[row] = gpus
    log.node[row] = ledger.place[job]


@uncounted
def _tell(table: Table, ledger: Ledger, log: Log) -> None:
    """Who starts, stops or moves at the beginning of a round; those taken off first."""
    for position in range(ledger.counts[ACTIVE]):
        job = ledger.active[position]
        if ledger.place[job] < 0 and ledger.before[job] >= 0:
            ledger.stops[job] += 1
            _write(ledger, log, ledger.clock[0], job, STOPPED, table.gpus[job])
    for position in range(ledger.counts[ACTIVE]):
        job = ledger.active[position]
        if ledger.place[job] < 0 or ledger.place[job] == ledger.before[job]:
            continue
        kind = STARTED if ledger.before[job] < 0 else MOVED
        _write(ledger, log, ledger.clock[0], job, kind, table.gpus[job])


@uncounted
def _none_up_to(ledger: Ledger, last: int) -> bool:
    """Whether nobody is active who came up to `last`; the active are in order of their coming."""
    return bool(ledger.counts[ACTIVE] == 0 or ledger.active[0] > last)


@uncounted
def _arrive(table: Table, terms: RoundTerms, ledger: Ledger, log: Log) -> None:
    while ledger.counts[ARRIVED] < len(table.submit) and table.submit[ledger.counts[ARRIVED]] <= ledger.clock[0]:
        job = ledger.counts[ARRIVED]
        ledger.counts[ARRIVED] += 1
        ledger.active[ledger.counts[ACTIVE]] = job
        ledger.counts[ACTIVE] += 1
        ledger.counts[CHANGED] = 1
        _write(ledger, log, table.submit[job], job, SUBMITTED, table.gpus[job])
        for kind in range(len(table.size)):
            ledger.time[job, kind] = terms.start_s
            ledger.total[kind] += terms.start_s


@uncounted
def _due(terms: RoundTerms, ledger: Ledger) -> bool:
    """Whether shares are to be computed anew: somebody came or went, and the last time is long ago."""
    passed = ledger.clock[0] >= ledger.clock[1] + terms.reset_s
    return bool(ledger.counts[CHANGED] != 0 and (passed or ledger.clock[1] == 0.0))


def settle(terms: RoundTerms, ledger: Ledger) -> Ints:
    """Book what is owed, and start to count anew.

    Returns:
        (k,) the active jobs, for whom `share` is to be given.
    """
    active: Ints = ledger.active[: ledger.counts[ACTIVE]].copy()
    now, last = ledger.clock
    received = ledger.time[active] - terms.start_s
    ledger.deficit[active] += np.where(ledger.given[active, None], ledger.share[active] * (now - last) - received, 0.0)
    ledger.time[active] = terms.start_s
    ledger.total[:] = terms.start_s * len(active)
    ledger.given[active] = True
    ledger.clock[1] = now
    ledger.counts[CHANGED] = 0
    ledger.counts[RESETS] += 1
    return active


@uncounted
def _priority(table: Table, ledger: Ledger, job: int, kind: int) -> float:
    """Share over the part of the type's time that the job has had."""
    if table.speed[job, kind] <= 0 or not ledger.given[job]:
        return 0.0
    share = ledger.share[job, kind]
    if ledger.time[job, kind] <= 0 or ledger.total[kind] <= 0:
        return float(share * NEVER_GIVEN)
    return float(share / (ledger.time[job, kind] / ledger.total[kind]))


@uncounted
def _fill(table: Table, terms: RoundTerms, ledger: Ledger) -> bool:
    """Give the types to jobs, in the order of their priorities; whether anybody runs."""
    count = ledger.counts[ACTIVE]
    for position in range(count):
        job = ledger.active[position]
        ledger.before[job] = ledger.place[job]
        ledger.place[job] = -1
    some = False
    for kind in ledger.types:
        free = table.size[kind]
        _sort(table, ledger, kind)
        for position in range(count):
            job = ledger.order[position]
            if free < table.gpus[job] or ledger.place[job] >= 0 or table.speed[job, kind] <= 0:
                continue
            if terms.needs_share and ledger.share[job, kind] <= 0:
                continue
            free -= table.gpus[job]
            ledger.place[job] = kind
            some = some or ledger.given[job]
    for position in range(count):  # a job that the shares do not know yet has blocked a place, no more
        job = ledger.active[position]
        if not ledger.given[job]:
            ledger.place[job] = -1
    return some


@uncounted
def _sort(table: Table, ledger: Ledger, kind: int) -> None:
    """Active jobs by (priority, deficit, share), largest first; equal ones in order of their coming."""
    for position in range(ledger.counts[ACTIVE]):
        job = ledger.active[position]
        hole = position
        mine = _priority(table, ledger, job, kind)
        while hole > 0:
            other = ledger.order[hole - 1]
            theirs = _priority(table, ledger, other, kind)
            if mine != theirs:
                before = mine > theirs
            elif ledger.deficit[job, kind] != ledger.deficit[other, kind]:
                before = ledger.deficit[job, kind] > ledger.deficit[other, kind]
            else:
                before = ledger.share[job, kind] > ledger.share[other, kind]
            if not before:
                break
            ledger.order[hole] = other
            hole -= 1
        ledger.order[hole] = job


@uncounted
def _pass(table: Table, terms: RoundTerms, ledger: Ledger, log: Log) -> None:
    """One round: everybody placed runs; it ends with the last."""
    now, longest = ledger.clock[0], 0.0
    ledger.counts[ROUNDS] += 1
    for position in range(ledger.counts[ACTIVE]):
        job = ledger.active[position]
        kind = ledger.place[job]
        if kind < 0:
            continue
        speed = table.speed[job, kind]
        whole = np.floor(speed * terms.round_s)
        if whole == 0:  # a step longer than a round goes on in the next
            whole = speed * terms.round_s
        steps = min(whole, ledger.left[job])
        took = steps / speed
        if terms.cut_s > 0 and ledger.before[job] < 0 and took > terms.round_s - 5.0:
            cut = steps * (took - terms.cut_s) / took
            steps = np.floor(cut) if cut >= 1 else cut
        if np.isnan(ledger.started[job]):
            ledger.started[job] = now
        ledger.left[job] -= steps
        ledger.time[job, kind] += took
        ledger.total[kind] += took
        ledger.executed[job] += took
        longest = max(longest, took)
        if ledger.left[job] <= 0:
            ledger.finished[job] = now + took
            _write(ledger, log, now + took, job, FINISHED, table.gpus[job])
    ledger.clock[0] = now + longest
    kept = 0
    for position in range(ledger.counts[ACTIVE]):
        job = ledger.active[position]
        if ledger.left[job] > 0:
            ledger.active[kept] = job
            kept += 1
            continue
        ledger.counts[CHANGED] = 1
        for kind in range(len(table.size)):
            ledger.total[kind] -= ledger.time[job, kind]
    ledger.counts[ACTIVE] = kept

# mypy: allow-untyped-decorators
"""The clock of events: time jumps from submission to end to demotion; at each, jobs are ranked and chosen anew.

Progress is added only when a job stops, or where the rules charge every running job at every event. Everything that
falls on one instant is one event: ends first, then submissions.
"""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.compiling import uncounted
from mfcp.simulator.clocks.allocation import clear, fit, forget, keep, release, total
from mfcp.simulator.clocks.heap import put, take
from mfcp.simulator.clocks.state import (
    ABSENT,
    ARRIVED,
    BACKFILL,
    DEMOTED,
    DONE,
    EVENTS,
    FAILED,
    FINISHED,
    HEAPED,
    LOGGED,
    MOVED,
    NEW,
    NOBODY,
    NONE,
    ORDERED,
    QUEUED,
    RANKED,
    RUNNING,
    STARTED,
    STOPPED,
    SUBMITTED,
    WAITING,
    Log,
    Nodes,
    Ranking,
    State,
    Terms,
    Work,
)

FINISHED_ALL, LOG_FULL, ASKS = 0, 1, 2


@uncounted
def run(work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log, asks: bool) -> int:
    """Go on until nothing happens any more, the log is full, or the policy wants to rank.

    Args:
        asks: return before every decision; then call `decide`, and `run` again.

    Returns:
        FINISHED_ALL, LOG_FULL (give a larger log and call again) or ASKS.
    """
    while True:
        now = _next_time(work, state)
        if now == np.inf:
            return FINISHED_ALL
        if not _room(work, state, log, now):
            return LOG_FULL
        state.clock[0] = now
        state.counts[EVENTS] += 1
        _happen(work, ranking, terms, nodes, state, log)
        if asks:
            return ASKS
        decide(work, ranking, terms, nodes, state, log)


@uncounted
def decide(work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log) -> None:
    """Rank the jobs, choose, and start and stop what has changed."""
    if not _decided_at_once(work, ranking, terms, nodes, state, log):
        _compact(terms, state)
        _rank(work, ranking, terms, state)
        if terms.preempts:
            _choose_anew(work, ranking, terms, nodes, state, log)
        else:
            _fill(work, ranking, terms, nodes, state, log)
        if terms.running_first:
            _partition(ranking, state)
    state.counts[NEW] = 0
    if terms.charges_every_event:
        for position in range(state.counts[HEAPED]):
            state.charge[state.heap[position]] = work.overhead[state.heap[position]]


@uncounted
def _decided_at_once(work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log) -> bool:
    """Start the jobs that arrived now, if it is plain that all of them fit; whether the event needs no ranking.

    With several nodes only a single job is started here: of several one might find no place after others have started,
    out of turn.
    """
    if terms.charges_every_event or (terms.preempts and not terms.sticky):
        return False
    if state.counts[QUEUED] == 0:
        return True
    if state.counts[QUEUED] != state.counts[NEW] or (state.counts[NEW] > 1 and len(nodes.size) > 1):
        return False
    need = 0
    for position in range(state.counts[ORDERED] - state.counts[NEW], state.counts[ORDERED]):
        need += work.gpus[state.order[position]]
    if need > total(nodes):
        return False
    first = state.counts[ORDERED] - state.counts[NEW]
    for position in range(first, state.counts[ORDERED]):
        job = state.order[position]
        if not fit(work, nodes, state, job, terms.fit):
            return False
        _begin(work, ranking, terms, nodes, state, log, job, STARTED)
    if not terms.preempts:
        state.counts[ORDERED] = first
    return True


@uncounted
def _next_time(work: Work, state: State) -> float:
    now = np.inf
    if state.counts[HEAPED] > 0:
        now = state.next_at[state.heap[0]]
    arrived = state.counts[ARRIVED]
    if arrived < len(work.submit):
        now = min(now, work.submit[arrived])
    return now


@uncounted
def _room(work: Work, state: State, log: Log, now: float) -> bool:
    """Whether the log has room for all that can happen at one event."""
    arriving = state.counts[ARRIVED]
    while arriving < len(work.submit) and work.submit[arriving] <= now:
        arriving += 1
    most = 4 * (arriving - state.counts[ARRIVED] + state.counts[ORDERED] + state.counts[HEAPED])
    return bool(state.counts[LOGGED] + most + 8 <= len(log.time))


@uncounted
def write(state: State, log: Log, job: int, kind: int, gpus: int) -> None:
    """A row of the log."""
    row = state.counts[LOGGED]
    state.counts[LOGGED] += 1
    log.time[row] = state.clock[0]
    log.job[row] = job
    log.kind[row] = kind
    log.gpus[row] = gpus
    cell = state.cell[job]
    log.node[row] = state.cells[cell, 0] if cell != NONE else NONE


@uncounted
def _happen(work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log) -> None:
    """Ends, failures and demotions of this instant, then submissions."""
    now = state.clock[0]
    while state.counts[HEAPED] > 0 and state.next_at[state.heap[0]] <= now:
        job = state.heap[0]
        take(state, job)
        if state.end[job] <= now:
            _end(work, terms, nodes, state, log, job)
        else:
            _add_progress(state, job)
            _demote(work, ranking, state, log, job, True)
            _plan(work, ranking, terms, state, job)
            put(state, job)
    if terms.charges_every_event:
        for position in range(state.counts[HEAPED]):
            job = state.heap[position]
            _add_progress(state, job)
            _demote(work, ranking, state, log, job, False)
    while state.counts[ARRIVED] < len(work.submit) and work.submit[state.counts[ARRIVED]] <= now:
        job = state.counts[ARRIVED]
        state.counts[ARRIVED] += 1
        _enlist(state, job)
        state.counts[NEW] += 1
        write(state, log, job, SUBMITTED, work.gpus[job])


@uncounted
def _enlist(state: State, job: int) -> None:
    state.status[job] = WAITING
    state.counts[QUEUED] += 1
    state.order[state.counts[ORDERED]] = job
    state.counts[ORDERED] += 1


@uncounted
def _add_progress(state: State, job: int) -> None:
    """What a running job has done since it was last looked at."""
    elapsed = state.clock[0] - state.since[job]
    state.executed[job] += elapsed
    done = max(elapsed - state.charge[job], 0.0) / state.pace[job]
    state.charge[job] = max(state.charge[job] - elapsed, 0.0)
    state.remaining[job] -= done
    state.since[job] = state.clock[0]


@uncounted
def _demote(work: Work, ranking: Ranking, state: State, log: Log, job: int, one: bool) -> None:
    """Levels by attained service; `one` where a level was planned to be left now, whatever rounding says."""
    reached = state.level[job]
    while reached < len(ranking.limits) and (one or state.executed[job] * work.gpus[job] >= ranking.limits[reached]):
        reached += 1
        one = False
    if reached > state.level[job]:
        state.level[job] = reached
        state.chosen[job] = NONE  # `_compact` sends it to the end
        write(state, log, job, DEMOTED, work.gpus[job])


@uncounted
def _end(work: Work, terms: Terms, nodes: Nodes, state: State, log: Log, job: int) -> None:
    """The end of an attempt: the job is done, or waits for the next."""
    now = state.clock[0]
    state.executed[job] += now - state.since[job]
    attempt = state.attempt[job]
    failed = attempt < work.left.shape[1] and work.left[job, attempt] >= 0
    write(state, log, job, FAILED if failed else FINISHED, work.gpus[job])
    release(nodes, state, job)
    if not failed:
        state.status[job] = DONE
        state.finished[job] = now
        state.remaining[job] = 0.0
        return
    state.attempt[job] += 1
    state.lost[job] += (work.iterations[job] - work.left[job, attempt]) * state.pace[job] * work.gpus[job]
    state.remaining[job] = work.iterations[job]
    if state.attempt[job] >= work.left.shape[1]:
        state.status[job] = DONE  # given up: it never finishes
        return
    if terms.preempts:  # it is still in the order
        state.status[job] = WAITING
        state.counts[QUEUED] += 1
    else:
        _enlist(state, job)


@uncounted
def _compact(terms: Terms, state: State) -> None:
    """Only jobs that wait or run stay in the order; those just demoted go last where the rules say so."""
    kept, late = 0, 0
    for position in range(state.counts[ORDERED]):
        job = state.order[position]
        if state.status[job] == DONE or state.status[job] == ABSENT:
            continue
        if terms.demoted_last and state.chosen[job] == NONE:
            state.heap[len(state.heap) - 1 - late] = job  # beyond the heap: as many cells are free
            late += 1
            continue
        state.order[kept] = job
        kept += 1
    for k in range(late):
        job = state.heap[len(state.heap) - 1 - k]
        state.chosen[job] = 0
        state.order[kept] = job
        kept += 1
    state.counts[ORDERED] = kept


@uncounted
def _rank(work: Work, ranking: Ranking, terms: Terms, state: State) -> None:
    """Keys, then a stable insertion sort: the order of the last event is nearly right."""
    for position in range(state.counts[ORDERED]):
        job = state.order[position]
        believed = _believed(work, ranking, state, job)
        state.key[job] = ranking.value[job] + ranking.weight[job] * believed
    state.counts[RANKED] += state.counts[ORDERED]
    for position in range(1, state.counts[ORDERED]):
        job = state.order[position]
        hole = position
        while hole > 0 and _before(ranking, terms, state, job, state.order[hole - 1]):
            state.order[hole] = state.order[hole - 1]
            hole -= 1
        state.order[hole] = job


@uncounted
def _believed(work: Work, ranking: Ranking, state: State, job: int) -> float:
    """Seconds on a device of speed 1 that the policy believes to be left."""
    left = state.remaining[job]
    if state.status[job] == RUNNING:
        elapsed = state.clock[0] - state.since[job] - state.charge[job]
        left -= max(elapsed, 0.0) / state.pace[job]
    return float(max(left + ranking.offset[job], 0.0) * work.step[job])


@uncounted
def _before(ranking: Ranking, terms: Terms, state: State, job: int, other: int) -> bool:
    first, second = ranking.rank[state.level[job]], ranking.rank[state.level[other]]
    if first != second:
        return bool(first < second)
    if state.key[job] != state.key[other]:
        return bool(state.key[job] < state.key[other])
    return bool(terms.by_submission and job < other)


@uncounted
def _choose_anew(work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log) -> None:
    """Place all jobs again from empty nodes, in order."""
    free = clear(nodes)
    for position in range(state.counts[ORDERED]):
        job = state.order[position]
        state.chosen[job] = 0
        before = state.cells[state.cell[job], 0] if state.cell[job] != NONE else NONE
        if free >= work.gpus[job]:
            if terms.sticky and keep(nodes, state, job):
                state.chosen[job] = 1
            else:
                forget(state, job)
                state.chosen[job] = fit(work, nodes, state, job, terms.fit)
        if state.chosen[job]:
            free -= work.gpus[job]
            after = state.cells[state.cell[job], 0]
            if state.status[job] == RUNNING and after != before:
                _begin(work, ranking, terms, nodes, state, log, job, MOVED)
        elif terms.skip == NOBODY:
            free = 0
    for position in range(state.counts[ORDERED]):
        job = state.order[position]
        if state.status[job] == RUNNING and not state.chosen[job]:
            _add_progress(state, job)
            take(state, job)
            write(state, log, job, STOPPED, work.gpus[job])
            forget(state, job)
            state.status[job] = WAITING
            state.counts[QUEUED] += 1
            state.stops[job] += 1
    for position in range(state.counts[ORDERED]):
        job = state.order[position]
        if state.status[job] == RUNNING and terms.charges_every_event:
            _plan(work, ranking, terms, state, job)
            put(state, job)
        if state.status[job] == WAITING and state.chosen[job]:
            _begin(work, ranking, terms, nodes, state, log, job, STARTED)


@uncounted
def _begin(
    work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log, job: int, kind: int
) -> None:
    """A placed job starts, or goes on elsewhere."""
    now = state.clock[0]
    if kind == MOVED:
        _add_progress(state, job)
    else:
        state.counts[QUEUED] -= 1
    cell, slowest = state.cell[job], np.inf
    while cell != NONE:
        slowest = min(slowest, work.speed[job, nodes.type[state.cells[cell, 0]]])
        cell = state.cells[cell, 2]
    state.pace[job] = work.step[job] / slowest
    state.since[job] = now
    first = np.isnan(state.started[job])
    state.charge[job] = 0.0 if first and terms.first_is_free else work.overhead[job]
    if first:
        state.started[job] = now
    state.status[job] = RUNNING
    _plan(work, ranking, terms, state, job)
    put(state, job)
    write(state, log, job, kind, work.gpus[job])


@uncounted
def _plan(work: Work, ranking: Ranking, terms: Terms, state: State, job: int) -> None:
    """When a running job ends or reaches the limit of its level, if nothing else happens to it."""
    now, attempt, left = state.clock[0], state.attempt[job], state.remaining[job]
    if attempt < work.left.shape[1] and work.left[job, attempt] >= 0:
        left -= work.left[job, attempt]
    end = now + left * state.pace[job]
    if terms.end_has_charge:
        end += state.charge[job]
    state.end[job] = end
    state.next_at[job] = end
    if state.level[job] < len(ranking.limits):
        seconds = ranking.limits[state.level[job]] / work.gpus[job]
        if terms.whole_limits:
            seconds = np.ceil(seconds)
        state.next_at[job] = min(end, max((seconds - state.executed[job]) + now, now))


@uncounted
def _partition(ranking: Ranking, state: State) -> None:
    """Within a level, jobs that run come before those that wait; otherwise the order stays."""
    for position in range(1, state.counts[ORDERED]):
        job = state.order[position]
        if state.status[job] != RUNNING:
            continue
        rank, hole = ranking.rank[state.level[job]], position
        while hole > 0:
            other = state.order[hole - 1]
            if state.status[other] == RUNNING or ranking.rank[state.level[other]] != rank:
                break
            state.order[hole] = other
            hole -= 1
        state.order[hole] = job


@uncounted
def _fill(work: Work, ranking: Ranking, terms: Terms, nodes: Nodes, state: State, log: Log) -> None:
    """Start what fits, in order; nobody who runs is touched."""
    now, kept, blocked, shadow, spare = state.clock[0], 0, False, np.inf, 0
    free = total(nodes)
    for position in range(state.counts[ORDERED]):
        job = state.order[position]
        need, allowed, early = work.gpus[job], work.gpus[job] <= free, True
        if blocked and terms.skip == NOBODY:
            allowed = False
        elif blocked and terms.skip == BACKFILL and allowed:
            early = now + _believed(work, ranking, state, job) <= shadow
            allowed = early or need <= spare
        if allowed and fit(work, nodes, state, job, terms.fit):
            _begin(work, ranking, terms, nodes, state, log, job, STARTED)
            free -= need
            if not early:
                spare -= need
            continue
        if not blocked and terms.skip == BACKFILL:
            shadow, spare = _reserve(work, ranking, state, free, need)
        blocked = True
        state.order[kept] = job
        kept += 1
    state.counts[ORDERED] = kept


@uncounted
def _reserve(work: Work, ranking: Ranking, state: State, free: int, need: int) -> tuple[float, int]:
    """When so many accelerators are believed to be free for the job that is first in line, and how many others are.

    Running jobs lie in the notes of `heap` by their believed end, `key`, as a heap of their own.
    """
    size, base = state.counts[HEAPED], len(state.heap) // 2
    for k in range(size):
        job = state.heap[k]
        state.heap[base + k] = job
        state.key[job] = state.clock[0] + _believed(work, ranking, state, job) * state.pace[job] / work.step[job]
    for place in range(size // 2 - 1, -1, -1):
        _sift(state, base, place, size)
    shadow = np.inf
    while size > 0:
        job = state.heap[base]
        if free >= need and state.key[job] > shadow:
            break
        free += work.gpus[job]
        if free >= need:
            shadow = state.key[job]
        size -= 1
        state.heap[base] = state.heap[base + size]
        _sift(state, base, 0, size)
    return shadow, max(free - need, 0)


@uncounted
def _sift(state: State, base: int, place: int, size: int) -> None:
    """Let a job of the notes sink below those that end earlier."""
    job = state.heap[base + place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and state.key[state.heap[base + child + 1]] < state.key[state.heap[base + child]]:
            child += 1
        if state.key[state.heap[base + child]] >= state.key[job]:
            break
        state.heap[base + place] = state.heap[base + child]
        place = child
    state.heap[base + place] = job


@uncounted
def _left(work: Work, ranking: Ranking, state: State, jobs: Ints, left: Floats) -> None:
    for k in range(len(jobs)):
        left[k] = _believed(work, ranking, state, jobs[k])


def believed(work: Work, ranking: Ranking, state: State, jobs: Ints) -> Floats:
    """(k,) seconds on a device of speed 1 that jobs are believed to need still."""
    left = np.empty(len(jobs))
    _left(work, ranking, state, jobs, left)
    return left

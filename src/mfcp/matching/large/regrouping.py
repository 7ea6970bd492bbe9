# mypy: allow-untyped-defs, allow-untyped-decorators
"""Compiled last step for small rounds: all tasks of a few clusters are dealt out anew, in the best possible way.

Where a cluster has about ten tasks of very different sizes, single moves and chains end in plans that only a change of
several tasks at once improves. This search takes a few clusters at a time and tries all ways to deal out their tasks,
depth first and the longest task first. It looks for the least time beyond a level just below the best plan. A branch
is cut off where the work that remains, or the reliability that it can still reach, rules out an improvement. So it
searches a neighbourhood of exponential size exactly [Ahuja2002]_.

.. [Ahuja2002] Ahuja et al., Discrete Applied Mathematics 123, 2002, doi:10.1016/S0166-218X(01)00338-9.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mfcp.compiling import kernel
from mfcp.matching.kernels.random_numbers import random_below

_LOOK = 50  # work of a look at a group, besides a visit per task
_GAIN = 1e-6  # relative, that counts as less time beyond the level


@kernel
def _beyond(load, level):
    return load - level if load > level else 0.0


@kernel
def _options(pairs, own, local, task, first, option, load):
    """Tasks that may run on several clusters of the group, longest first, and their pairs; others are added to `load`.

    Returns:
        (how many, their Σ_j a).
    """
    count, reached = 0, 0.0
    length = np.empty(len(task))
    for j in range(len(own)):
        g = local[pairs.cluster[own[j]]]
        if g < 0:
            continue
        choices = 0
        for e in range(pairs.start[j], pairs.start[j + 1]):
            choices += local[pairs.cluster[e]] >= 0
        if choices < 2:
            load[g] += pairs.time[own[j]]
        else:
            task[count], length[count] = j, -pairs.time[own[j]]
            count += 1
            reached += pairs.reliability[own[j]]
    sorted_ = task[:count][np.argsort(length[:count])]
    many = 0
    for d in range(count):
        task[d], first[d] = sorted_[d], many
        for e in range(pairs.start[sorted_[d]], pairs.start[sorted_[d] + 1]):
            if local[pairs.cluster[e]] >= 0:
                option[many] = e
                many += 1
    first[count] = many
    return count, reached


class _Target(NamedTuple):
    """What tasks are dealt out for: Σ_j a at least `need`, and less time beyond `level` than `least`."""

    need: float
    level: float
    least: float


@kernel
def _deal(pairs, local, count, first, option, load, target, nodes, chosen):
    """Deal out tasks for the least time beyond the level that still reaches what is needed.

    Returns:
        (that time, work); `chosen` holds the pairs where it is below `target.least`.
    """
    need, level, least = target.need, target.level, target.least
    trial, at = np.empty(count, np.int64), np.empty(count + 1, np.int64)
    beyond, reached = np.zeros(count + 1), np.zeros(count + 1)
    most, shortest = np.zeros(count + 1), np.zeros(count + 1)  # Σ_j a and time of the tasks from d on
    for d in range(count - 1, -1, -1):
        best, short = -math.inf, math.inf
        for k in range(first[d], first[d + 1]):
            best, short = max(best, pairs.reliability[option[k]]), min(short, pairs.time[option[k]])
        most[d], shortest[d] = most[d + 1] + best, shortest[d + 1] + short
    for g in range(len(load)):
        beyond[0] += _beyond(load[g], level)
    d, work = 0, 0
    at[0] = first[0]
    while True:
        k = at[d]
        if d == count or k == first[d + 1] or work > nodes or least <= 0.0:
            if d == count and reached[d] >= need and beyond[d] < least:
                least = beyond[d]
                for task in range(count):
                    chosen[task] = trial[task]
            d -= 1
            if d < 0:
                return least, work
            load[local[pairs.cluster[trial[d]]]] -= pairs.time[trial[d]]
            continue
        at[d] += 1
        work += 1
        e = option[k]
        g = local[pairs.cluster[e]]
        before = load[g]
        after = before + pairs.time[e]
        over = beyond[d] + _beyond(after, level) - _beyond(before, level)
        reach = reached[d] + pairs.reliability[e]
        if over >= least or reach + most[d + 1] < need:
            continue
        load[g] = after
        room = 0.0
        for other in load:
            room += _beyond(level, other)
        if over + shortest[d + 1] - room >= least:
            load[g] = before
            continue
        beyond[d + 1], reached[d + 1], trial[d] = over, reach, e
        d += 1
        at[d] = first[d]


@kernel
def regroup(pairs, terms, own, best, together, drop, nodes, total, state):
    """Improve a plan by dealing out the tasks of `together` clusters anew, one group at a time.

    Args:
        pairs, terms: as in `annealing`, of a sequential round without limits in which only the makespan counts; no
            backlog is as long as the makespan.
        own: (N,) pair of each task, of a plan that reaches the reliability; the best found afterwards.
        best: its makespan.
        together: clusters of a group; one of them ends after the level.
        drop: relative distance of the level below the best plan.
        nodes: visits of a pair, per group at most.
        total: in all.
        state: (1,) uint64 of the generator.

    Returns:
        The makespan.
    """
    N, M = len(own), len(terms.backlog)
    need = terms.need * (1.0 - 1e-13)
    now, load, reached = own.copy(), terms.backlog.copy(), 0.0
    for j in range(N):
        load[pairs.cluster[now[j]]] += pairs.time[now[j]]
        reached += pairs.reliability[now[j]]
    task, first, chosen = np.empty(N, np.int64), np.empty(N + 1, np.int64), np.empty(N, np.int64)
    option, order, local = np.empty(len(pairs.cluster), np.int64), np.arange(M), np.empty(M, np.int64)
    level, work = best * (1.0 - drop), 0
    while work < total:
        for i in range(M - 1):  # a random order, with a cluster that ends too late in front
            k = i + random_below(state, M - i)
            order[i], order[k] = order[k], order[i]
        for i in range(M):
            if load[order[i]] > level:
                order[0], order[i] = order[i], order[0]
                break
        local[:] = -1
        group = order[:together]
        rest, least = np.empty(together), 0.0
        for g in range(together):
            local[group[g]], rest[g] = g, terms.backlog[group[g]]
            least += _beyond(load[group[g]], level)
        count, own_part = _options(pairs, now, local, task, first, option, rest)
        wanted = need - (reached - own_part)
        least *= 1.0 - _GAIN
        found, spent = _deal(pairs, local, count, first, option, rest, _Target(wanted, level, least), nodes, chosen)
        work += spent + _LOOK + N
        if found >= least:
            continue
        for d in range(count):
            old, new = now[task[d]], chosen[d]
            load[pairs.cluster[old]] -= pairs.time[old]
            load[pairs.cluster[new]] += pairs.time[new]
            reached += pairs.reliability[new] - pairs.reliability[old]
            now[task[d]] = new
        if load.max() < best:
            best, own[:] = load.max(), now
            level = best * (1.0 - drop)
    return best

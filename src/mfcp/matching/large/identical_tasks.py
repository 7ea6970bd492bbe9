"""Tasks that are equal in everything become one task of the relaxation, whose mass is their number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats, Ints
from mfcp.matching.large.candidates import rows_of
from mfcp.matching.large.linear_relaxation import TINY, probe_tasks
from mfcp.matching.problem import MatchingProblem


def alike(problem: MatchingProblem) -> Ints | None:
    """(N,) kind of each task, where far fewer kinds than tasks exist: tasks of a kind are equal in everything.

    None if a look at some pairs of tasks finds no two alike.
    """
    N = problem.tasks
    tables = [problem.T, problem.A, *(row.use for row in rows_of(problem) if row.use is not None)]
    tables += [table for table in (problem.cost,) if table is not None]
    flags = [problem.allowed] if not problem.allowed.all() else []

    def keys(tasks: Ints) -> list[bytes]:
        parts = [np.ascontiguousarray(table[:, tasks].T).view(np.uint8) for table in [*tables, *flags]]
        if problem.deadline is not None:
            parts.append(np.ascontiguousarray(problem.deadline[tasks, None]).view(np.uint8))
        return [row.tobytes() for row in np.concatenate(parts, axis=1)]

    some = probe_tasks(N)
    if len(set(keys(some))) == len(some):
        return None
    known: dict[bytes, int] = {}
    kinds = np.empty(N, np.int64)
    for low in range(0, N, 1024):
        tasks = np.arange(low, min(low + 1024, N))
        for j, key in zip(tasks, keys(tasks), strict=True):
            kinds[j] = known.setdefault(key, len(known))
        if len(known) > max(N / 4, 1024):
            return None
    return kinds


def dealt(cluster: NDArray[np.int32], share: Floats, kinds: Ints, candidates: int) -> tuple[NDArray[np.int32], Floats]:
    """Candidates and shares of tasks, (N, W), from those of their kinds, whose clusters they take in turn.

    A kind's shares are laid end to end and cut into equal pieces, one per task. A task's candidates begin where its
    piece does.
    """
    N, V = len(kinds), cluster.shape[1]
    many = np.bincount(kinds)
    begin = np.empty(N)
    begin[np.argsort(kinds, kind="stable")] = np.arange(N) - np.repeat(many.cumsum() - many, many)
    begin /= many[kinds]
    edges = share.cumsum(axis=1)
    wide = min(candidates, V)
    chosen, part = np.empty((N, wide), np.int32), np.empty((N, wide))
    for low in range(0, N, 1024):
        tasks = slice(low, low + 1024)
        kind, left = kinds[tasks, None], begin[tasks, None]
        first = np.minimum((edges[kinds[tasks]] <= left).sum(axis=1), V - 1)
        turn = (first[:, None] + np.arange(wide)) % V
        right = np.minimum(edges[kind, turn], left + 1.0 / many[kind])
        chosen[tasks] = cluster[kind, turn]
        part[tasks] = np.maximum(right - np.maximum(edges[kind, turn] - share[kind, turn], left), 0.0)
    part[:, 0] = np.maximum(part[:, 0], TINY)  # rounding may have left nothing
    part[chosen < 0] = 0.0
    present = np.argsort(chosen < 0, axis=1, kind="stable")
    part = np.take_along_axis(part / np.maximum(part.sum(axis=1, keepdims=True), TINY), present, axis=1)
    return np.take_along_axis(chosen, present, axis=1), part

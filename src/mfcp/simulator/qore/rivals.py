"""Who sizes all jobs at once, to compare Qore-DL with: each by its own rule, on the same predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.simulator.qore.equations import WORKERS
from mfcp.simulator.qore.running import Seen

MOST = WORKERS[0]
"""Workers of a job, as of the configurator under light load (Eq. 5)."""
AHEAD_S = 600.0
"""Seconds in which SLAQ looks for quality."""


def optimus(seen: Seen) -> Ints:
    """A worker each, then one at a time to whom it saves most time over what it takes.

    Peng et al., "Optimus", EuroSys 2018, Eq. 9.
    """
    return _grow(seen, _everyone(seen, np.arange(len(seen.row))), lambda w: _saved(seen, w))


def slaq(seen: Seen) -> Ints:
    """A worker each, then one at a time to whose loss it lowers most in the next minutes, over what it takes.

    Zhang et al., "SLAQ", SoCC 2017, §4; the normalised loss is an inverse curve that falls to a tenth by the believed
    end.
    """
    end = np.maximum(seen.done + seen.left, 1e-9)

    def loss(workers: Ints) -> Floats:
        after = np.minimum(seen.done + AHEAD_S * workers / seen.seconds, end)
        return np.asarray(1.0 / (1.0 + 9.0 * after / end))

    return _grow(seen, _everyone(seen, np.arange(len(seen.row))), lambda w: loss(w) - loss(w + 1))


def elastic_flow(seen: Seen) -> Ints:
    """By deadline, the least workers that meet it where they fit; what is left goes where it saves most time.

    Gu et al., "ElasticFlow", ASPLOS 2023, §4: shares here are constant until the end, not filled slot by slot.
    """
    least = np.ceil(seen.left * seen.seconds / np.maximum(seen.available, 1e-3))
    hopeful = (seen.available > 0) & (least <= MOST)
    workers, free = np.zeros(len(seen.row), np.int64), 1.0
    for i in np.argsort(seen.available, kind="stable"):
        if hopeful[i] and least[i] * seen.need[i] <= free:
            workers[i] = int(max(least[i], 1))
            free -= workers[i] * seen.need[i]
    shortest = np.argsort(seen.left * seen.seconds, kind="stable")
    return _grow(seen, _everyone(seen, shortest, workers), lambda w: _saved(seen, w))


def _saved(seen: Seen, workers: Ints) -> Floats:
    """(k,) seconds that one more worker saves."""
    whole = seen.left * seen.seconds
    return np.where(workers > 0, whole / np.maximum(workers, 1) - whole / (workers + 1), whole)


def _everyone(seen: Seen, order: Ints, workers: Ints | None = None) -> Ints:
    """A worker for each job that has none, in this order, while there is room."""
    workers = np.zeros(len(seen.row), np.int64) if workers is None else workers
    free = 1.0 - float((workers * seen.need).sum())
    for i in order:
        if workers[i] == 0 and seen.need[i] <= free:
            workers[i] = 1
            free -= seen.need[i]
    return workers


def _grow(seen: Seen, workers: Ints, gain: Callable[[Ints], Floats]) -> Ints:
    """One worker more where it is worth most over its need, again and again, while there is room."""
    free = 1.0 - float((workers * seen.need).sum())
    while True:
        fits = (workers > 0) & (workers < MOST) & (seen.need <= free)
        worth = np.where(fits, gain(workers) / seen.need, -np.inf)
        if not len(worth) or worth.max() <= 0:
            return workers
        best = int(worth.argmax())
        workers[best] += 1
        free -= seen.need[best]

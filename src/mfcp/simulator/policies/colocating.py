"""The family of policies that let jobs share accelerators: who runs with whom, and how fast each then is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.policies.base import Clock, Policy


@dataclass(frozen=True)
class Present:
    """What a policy sees when it decides: k jobs that wait or run, on G accelerators.

    Attributes:
        now: seconds.
        job: (k,) rows of the jobs, in order of submission.
        gpus: (k,) accelerators that each asks for.
        deadline: (k,) absolute seconds; infinite where there is none.
        step: (k,) seconds of an iteration alone.
        stages: (k, 3) seconds of it in each stage: loading, computing, sending.
        overhead: (k,) seconds without progress when a job is charged.
        left: (k,) seconds alone that are believed to be left.
        executed: (k,) seconds on accelerators so far.
        holds: (k, G) which accelerators each has; none while it waits.
        node: (G,) of each accelerator, ascending.
    """

    now: float
    job: Ints
    gpus: Ints
    deadline: Floats
    step: Floats
    stages: Floats
    overhead: Floats
    left: Floats
    executed: Floats
    holds: Bools
    node: Ints


@dataclass(frozen=True)
class Colocation:
    """Who runs where from now on.

    Attributes:
        step: (k,) seconds that an iteration takes; infinite while a job waits.
        holds: (k, G) accelerators of the jobs that run, as many as each asks for.
        overhead: (k,) seconds without progress that a job is to be charged.
    """

    step: Floats
    holds: Bools
    overhead: Floats


class Colocator(Protocol):
    """Decides."""

    def decide(self, present: Present) -> Colocation:
        """See `Colocating`."""


class Colocating(Policy):
    """Puts jobs on accelerators, several on one; knows the stages of an iteration."""

    clock: ClassVar[Clock] = "colocations"
    together: ClassVar[int]  # jobs that an accelerator takes at most

    def decide(self, present: Present) -> Colocation:
        """Called at every event."""
        raise NotImplementedError

    def start(self) -> Colocator:
        """What decides in one run: the policy, unless it has to remember earlier decisions."""
        return self


class FreeNodes:
    """Free accelerators of each node, in order, which jobs take.

    Args:
        node: (G,) of each accelerator, ascending.
    """

    def __init__(self, node: Ints) -> None:
        cuts = np.flatnonzero(np.diff(node)) + 1
        self._free = [part.tolist() for part in np.split(np.arange(len(node)), cuts)]
        self._size = [len(part) for part in self._free]
        self._node, self.left = node, len(node)

    def take(self, gpus: int) -> list[int]:
        """Accelerators of the first node with room; of whole nodes and the first with the rest, if none is so large.

        Returns:
            An empty list where there is no room.
        """
        if gpus > self.left:
            return []
        parts = [(node, gpus) for node, free in enumerate(self._free) if len(free) >= gpus][:1]
        if gpus > max(self._size):
            left, parts = gpus, []
            for node, free in enumerate(self._free):
                if len(free) == self._size[node] <= left:
                    parts.append((node, len(free)))
                    left -= len(free)
            used = {node for node, _ in parts}
            rest = [node for node, free in enumerate(self._free) if len(free) >= left and node not in used][:1]
            if left and not rest:
                return []
            parts += [(node, left) for node in rest if left]
        taken = list[int]()
        for node, count in parts:
            taken += self._free[node][:count]
            del self._free[node][:count]
        self.left -= len(taken)
        return taken

    def take_those(self, accelerators: list[int]) -> bool:
        """These, if all of them are free."""
        if not all(each in self._free[self._node[each]] for each in accelerators):
            return False
        for each in accelerators:
            self._free[self._node[each]].remove(each)
        self.left -= len(accelerators)
        return True

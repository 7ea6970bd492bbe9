"""The family of placements: machines, what tasks ask for, and a score of a machine for each kind of request."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import DataError
from mfcp.registry import Registered

WHOLE = 1000  # thousandths of an accelerator


class Usual(NamedTuple):
    """T common requests: columns as in `Requests`."""

    cpu: Ints
    gpus: Ints
    milli: Ints
    allowed: Bools
    weight: Floats


@dataclass(frozen=True)
class Requests:
    """S kinds of requests; a task names one of them.

    Attributes:
        cpu, memory: (S,) thousandths of a core, MiB.
        gpus: (S,) accelerators on one machine.
        milli: (S,) thousandths of each; below 1,000 only with one accelerator, 0 without any.
        allowed: (S, models) on which models the task runs.
        weight: (S,) part of the tasks that ask for it.
    """

    cpu: Ints
    memory: Ints
    gpus: Ints
    milli: Ints
    allowed: Bools
    weight: Floats

    def __post_init__(self) -> None:
        """Check what cannot be placed.

        Raises:
            DataError: a part of several accelerators, or more than a whole one.
        """
        bad = np.flatnonzero((self.milli > WHOLE) | ((self.milli < WHOLE) & (self.gpus > 1)))
        if len(bad):
            row = bad[0]
            raise DataError(
                f"request {row}: {self.gpus[row]} accelerators at {self.milli[row]} thousandths; parts are of one"
                " accelerator and at most 1,000"
            )

    @property
    def asked(self) -> Ints:
        """(S,) thousandths of accelerators in all."""
        return self.gpus * self.milli

    @cached_property
    def usual(self) -> Usual:
        """The commonest requests, whatever memory they ask for: those that make up 95 % of the tasks."""
        keys = np.column_stack([self.cpu, self.gpus, self.milli, self.allowed])
        rows, group = np.unique(keys, axis=0, return_inverse=True)
        weight = np.bincount(group.ravel(), self.weight)
        order = np.argsort(-weight, kind="stable")
        kept = order[: int(np.searchsorted(weight[order].cumsum(), 0.95 * weight.sum() - 1e-12)) + 1]
        cpu, gpus, milli = rows[kept, :3].T.copy()
        return Usual(cpu, gpus, milli, rows[kept, 3:].astype(bool), weight[kept] / weight[kept].sum())


@dataclass
class Machines:
    """L machines and what is free on them; `take` and `give_back` change them.

    Attributes:
        cpu, memory: (L,) free thousandths of a core, free MiB.
        left: (L, G) free thousandths of each accelerator; 0 where there is none.
        count: (L,) accelerators.
        model: (L,) index of their model.
        held: (L, S) tasks of each kind that run.
    """

    cpu: Ints
    memory: Ints
    left: Ints
    count: Ints
    model: Ints
    held: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))

    @staticmethod
    def empty(cpu: Ints, memory: Ints, gpus: Ints, model: Ints, kinds: int) -> Machines:
        """Nothing runs yet."""
        left = np.where(np.arange(gpus.max(initial=0)) < gpus[:, None], WHOLE, 0)
        held = np.zeros((len(cpu), kinds), np.int64)
        return Machines(cpu.copy(), memory.copy(), left, gpus.copy(), model, held)

    def fits(self, requests: Requests, node: int) -> Bools:
        """(S,) which requests a machine can serve now."""
        room = (self.left[node] >= np.maximum(requests.milli, 1)[:, None]).sum(axis=1)
        served = (room >= requests.gpus) & requests.allowed[:, self.model[node]] | (requests.gpus == 0)
        enough: Bools = served & (self.cpu[node] >= requests.cpu) & (self.memory[node] >= requests.memory)
        return enough

    def take(self, requests: Requests, kind: int, node: int, devices: Ints) -> None:
        """A task of this kind runs on these accelerators of a machine."""
        self.cpu[node] -= requests.cpu[kind]
        self.memory[node] -= requests.memory[kind]
        self.left[node, devices] -= requests.milli[kind]
        self.held[node, kind] += 1

    def give_back(self, requests: Requests, kind: int, node: int, devices: Ints) -> None:
        """Such a task has ended."""
        self.cpu[node] += requests.cpu[kind]
        self.memory[node] += requests.memory[kind]
        self.left[node, devices] += requests.milli[kind]
        self.held[node, kind] -= 1

    def tightest(self, node: int, gpus: int, milli: int) -> Ints:
        """The accelerators of a machine with the least room that suffices."""
        left = self.left[node]
        order = np.argsort(left, kind="stable")
        chosen: Ints = order[left[order] >= milli][:gpus]
        return chosen


class Placement(Registered):
    """Which of the machines that can serve a task takes it: the one of the highest score, the first of equals."""

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """(S,) of one machine for each kind of request that fits there; what it says of others does not matter."""
        raise NotImplementedError

    def devices(self, machines: Machines, requests: Requests, kind: int, node: int, rng: np.random.Generator) -> Ints:
        """The accelerators that the task takes: those with the least room that suffices."""
        return machines.tightest(node, int(requests.gpus[kind]), int(requests.milli[kind]))

    def choose(self, scores: Floats, fits: Bools, rng: np.random.Generator) -> int:
        """A machine from (L,) scores; -1 if none fits."""
        node = int(np.where(fits, scores, -np.inf).argmax())
        return node if fits[node] else -1

# mypy: allow-untyped-decorators
"""The machine on which least of what is free becomes useless to the usual tasks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.compiling import kernel
from mfcp.simulator.placement.machines import WHOLE, Machines, Placement, Requests, Usual


class Fragmentation(Placement):
    """Fragmentation gradient descent: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, Algorithm 1.

    The fragmentation F of a machine is the free share of its accelerators that a usual task could not use, averaged
    over the commonest requests. The score is 100 × sigmoid((F before - F after) / 1000), in whole points.
    """

    name: ClassVar[str] = "fgd"

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        """Of the best accelerator, where the task asks for a part of one."""
        return self._best(machines, requests, node, machines.fits(requests, node))[0]

    def devices(self, machines: Machines, requests: Requests, kind: int, node: int, rng: np.random.Generator) -> Ints:
        """The best accelerator for a part of one, else the tightest."""
        if requests.gpus[kind] == 1 and requests.milli[kind] < WHOLE:
            only = np.arange(len(requests.cpu)) == kind
            return np.array([self._best(machines, requests, node, only)[1][kind]])
        return super().devices(machines, requests, kind, node, rng)

    def _best(self, machines: Machines, requests: Requests, node: int, rows: Bools) -> tuple[Floats, Ints]:
        score, device = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
        allowed = requests.usual.allowed[:, machines.model[node]].copy()
        left = machines.left[node]
        _gradients(
            int(machines.cpu[node]), left, np.sort(left), np.flatnonzero(rows), requests.cpu, requests.gpus,
            requests.milli, requests.usual, allowed, score, device,
        )  # fmt: skip
        return score, device


def fragmentation(machines: Machines, requests: Requests) -> Floats:
    """(L,) thousandths of the free accelerators of each machine that the usual tasks cannot use, on average."""
    usual = requests.usual
    return np.array([
        _useless(cpu, left, usual, usual.allowed[:, model].copy())
        for cpu, left, model in zip(machines.cpu, machines.left, machines.model, strict=True)
    ])  # fmt: skip


# Over 10 positional parameters: compiled code takes arrays, and tells their types apart by position.
@kernel
def _gradients(
    cpu: int, left: Ints, ascending: Ints, rows: Ints, need_cpu: Ints, gpus: Ints, milli: Ints, usual: Usual,
    allowed: Bools, score: Floats, device: Ints,
) -> None:  # fmt: skip
    before = _useless(cpu, left, usual, allowed)
    after = np.empty_like(left)
    for row in rows:
        score[row] = -1.0
        if gpus[row] == 1 and milli[row] < WHOLE:
            for d in range(len(left)):
                if left[d] < milli[row]:
                    continue
                after[:] = left
                after[d] -= milli[row]
                points = _points(before - _useless(cpu - need_cpu[row], after, usual, allowed))
                if points > score[row]:
                    score[row] = points
                    device[row] = d
            continue
        after[:] = ascending
        count = gpus[row]
        for d in range(len(left)):
            if count > 0 and after[d] >= milli[row]:
                after[d] -= milli[row]
                count -= 1
        score[row] = _points(before - _useless(cpu - need_cpu[row], after, usual, allowed))


@kernel
def _points(gain: float) -> float:
    return float(np.floor(100.0 / (1.0 + np.exp(-gain / 1000.0))))


@kernel
def _useless(cpu: int, left: Ints, usual: Usual, allowed: Bools) -> float:
    total = left.sum()
    lost = 0.0
    for t in range(len(usual.cpu)):
        room, small = 0, 0
        for d in range(len(left)):
            if left[d] >= usual.milli[t]:
                room += left[d] > 0
            else:
                small += left[d]
        fits = usual.gpus[t] > 0 and allowed[t] and cpu >= usual.cpu[t] and room >= usual.gpus[t]
        lost += usual.weight[t] * (small if fits else total)
    return lost

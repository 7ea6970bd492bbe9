"""Tasks that only arrive: how much of a cluster a placement can give away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.placement.machines import Machines, Placement, Requests


@dataclass(frozen=True)
class Filled:
    """What came of it.

    Attributes:
        node: (n,) machine of each task; -1 where it fitted nowhere.
        asked, given: (n,) thousandths of accelerators of all tasks so far, and of those that were placed.
    """

    node: Ints
    asked: Ints
    given: Ints

    def allocation(self, capacity: float, arrived: float) -> float:
        """Part of the capacity that is given when the tasks that have arrived ask for `arrived` of it."""
        row = int(np.searchsorted(self.asked, arrived * capacity))
        return float(self.given[: row + 1].max(initial=0) / capacity)


def fill(kinds: Ints, requests: Requests, machines: Machines, placement: Placement, seed: int = 0) -> Filled:
    """Place tasks one by one; nothing ends, and what fits nowhere is left out.

    Scores are kept: a task changes one machine, and only its scores are computed again.

    Args:
        kinds: (n,) the request of each task, in the order of arrival.
        requests: the S kinds.
        machines: empty or not; changed.
        placement: which machine takes a task.
        seed: of what the placement draws.
    """
    rng = np.random.default_rng(seed)
    shape = (len(requests.cpu), len(machines.cpu))
    fits, scores = np.empty(shape, bool), np.empty(shape)
    for node in range(shape[1]):
        look(machines, requests, placement, node, fits, scores)
    nodes = np.full(len(kinds), -1)
    for i, kind in enumerate(kinds):
        node = placement.choose(scores[kind], fits[kind], rng)
        if node < 0:
            continue
        machines.take(requests, kind, node, placement.devices(machines, requests, kind, node, rng))
        look(machines, requests, placement, node, fits, scores)
        nodes[i] = node
    asked = requests.asked[kinds]
    return Filled(nodes, asked.cumsum(), np.where(nodes >= 0, asked, 0).cumsum())


def look(machines: Machines, requests: Requests, placement: Placement, node: int, fits: Bools, scores: Floats) -> None:
    """Set what fits on a node, and its scores, in (S, L) arrays, once the node has changed."""
    fits[:, node] = machines.fits(requests, node)
    scores[:, node] = placement.scores(machines, requests, node)

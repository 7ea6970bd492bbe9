"""First in, first out over types."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares


class InTurn(Shares):
    """Jobs in the order of submission, each on one type that it keeps to its end; a free place goes to the next.

    The next takes the place of a job that has ended if it fits, else the first type with room.
    """

    name: ClassVar[str] = "in_turn"
    blind: ClassVar[bool] = True
    strict: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """Running jobs keep their type; the next queued job takes a free one."""
        share = moment.before.copy()
        free = moment.size - moment.gpus @ (share > 0)
        queue = [i for i in range(len(moment.job)) if not share[i].any()]
        for kind in (*moment.freed, *(k for k in range(len(free)) for _ in range(max(free[k], 0)))):
            if queue and free[kind] >= moment.gpus[queue[0]] and moment.speed[queue[0], kind] > 0:
                free[kind] -= moment.gpus[queue[0]]
                share[queue.pop(0), kind] = 1.0
        return share


class InTurnFastest(Shares):
    """Jobs in the order of submission, each on the fastest type with room; all are placed anew at every reset."""

    name: ClassVar[str] = "in_turn_fastest"
    strict: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """Until the first that fits nowhere."""
        share, free = np.zeros_like(moment.speed), moment.size.copy()
        for i, need in enumerate(moment.gpus):
            speed = np.where(free >= need, moment.speed[i], 0.0)
            if speed.max() <= 0:
                break
            kind = int(speed.argmax())
            free[kind] -= need
            share[i, kind] = 1.0
        return share

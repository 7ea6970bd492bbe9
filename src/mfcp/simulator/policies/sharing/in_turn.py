"""First in, first out over types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Moment, Shares


class InTurn(Shares):
    """Jobs in the order of submission, each on one type that it keeps to its end; a free place goes to the next.

    The next takes the place of a job that has ended if it fits, else the first type with room.
    """

    name: ClassVar[str] = "in_turn"
    blind: ClassVar[bool] = True
    strict: ClassVar[bool] = True
    published: bool = Field(
        False, description="as the program of Narayanan et al., OSDI 2020, has it: a type is drawn, but the first with"
        " room is given, and the drawn one left out once that is full: full types are given again and shared in rounds",
    )  # fmt: skip

    def watch(self) -> Callable[[Moment], Floats]:
        """As published, it remembers who has which type."""
        return partial(_as_published, {}) if self.published else self.solve

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


def _as_published(place: dict[int, int], moment: Moment) -> Floats:
    """(k, K) shares; `place` has the type of each job that has one, and is changed."""
    row = {job: i for i, job in enumerate(moment.job.tolist())}
    queue, free, gpus = [job for job in row if job not in place], moment.size.tolist(), moment.gpus.tolist()
    for job in sorted(place):
        kind = place[job]
        if job in row:
            free[kind] -= gpus[row[job]]
            continue
        del place[job]
        if queue and free[kind] >= gpus[row[queue[0]]] and moment.speed[row[queue[0]], kind] > 0:
            free[kind] -= gpus[row[queue[0]]]
            place[queue.pop(0)] = kind
    kinds = [kind for kind in reversed(range(len(free))) if free[kind] > 0]
    while queue and kinds:
        at = row[queue.pop(0)]
        fits = [i for i, kind in enumerate(kinds) if free[kind] >= gpus[at]]
        if not fits:
            break
        drawn, kind = moment.random.randrange(len(fits)), kinds[-1]
        if moment.speed[at, kind] > 0:
            place[int(moment.job[at])] = kind
            free[kind] -= gpus[at]
            if free[kind] == 0:
                kinds.pop(fits[drawn])
    share = np.zeros_like(moment.speed)
    for job, kind in place.items():
        share[row[job], kind] = 1.0
    return share


class InTurnFastest(Shares):
    """Jobs in the order of submission, each on the fastest type with room; all are placed anew at every reset."""

    name: ClassVar[str] = "in_turn_fastest"
    strict: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """Until the first that fits nowhere."""
        share = np.zeros_like(moment.speed)
        for i, kind in enumerate(fastest_with_room(moment)):
            share[i, kind] = 1.0
        return share


class InTurnPacked(Shares):
    """The same, and those that find no room share with one that has: in order, each with the best partner.

    `gain` is what the two must do together, of what each does alone. It stops at the first that finds no partner.
    Narayanan et al., OSDI 2020, compare with it.
    """

    name: ClassVar[str] = "in_turn_packed"
    strict: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    gain: float = Field(1.5, ge=1, le=2, description="least throughput of a pair, each job's over that alone, summed")

    def solve(self, moment: Moment) -> Floats:
        """Places, then partners."""
        kinds = fastest_with_room(moment)
        place, pair, kept = np.array(kinds, np.int64), moment.pair, moment.kept
        share = np.zeros((len(moment.job) + len(pair), len(moment.size)))
        share[np.arange(len(place)), place] = 1.0
        number = {tuple(each): row for row, each in enumerate(pair.tolist())}
        hosts = list(range(len(place)))
        for guest in range(len(place), len(moment.job)):
            rows = np.array([number[host, guest] for host in hosts if (host, guest) in number], np.int64)
            if not len(rows):
                break
            on = place[pair[rows, 0]]
            gain = kept[rows, on].sum(axis=1)
            best = int(gain.argmax())
            if gain[best] <= self.gain:
                break
            host = int(pair[rows[best], 0])
            hosts.remove(host)
            share[host] = 0.0
            share[len(moment.job) + rows[best], place[host]] = 1.0
        return share


def fastest_with_room(moment: Moment, order: Ints | None = None) -> list[int]:
    """The types of jobs in an order, of submission if None: each the fastest with room, up to one that finds none."""
    free, kinds = moment.size.copy(), list[int]()
    for i in range(len(moment.job)) if order is None else order.tolist():
        speed = np.where(free >= moment.gpus[i], moment.speed[i], 0.0)
        if speed.max() <= 0:
            break
        kinds.append(int(speed.argmax()))
        free[kinds[-1]] -= moment.gpus[i]
    return kinds

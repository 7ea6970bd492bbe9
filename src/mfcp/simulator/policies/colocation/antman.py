"""AntMan: jobs without a guarantee run on what guaranteed ones leave idle."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Ints
from mfcp.simulator.policies.colocating import Colocating, Colocation, Colocator, Present
from mfcp.simulator.policies.stages import alongside_s


class AntMan(Colocating):
    """Jobs with a deadline are guaranteed: they have accelerators of their own, which they reserve one by one.

    Guaranteed jobs come first, in the order of submission, and reserve on one node what becomes free there until they
    have all that they ask for; of a job larger than a node, whole nodes. The others are opportunistic: each runs where
    no other opportunistic job does, on accelerators that are wholly free before those that are reserved and those in
    use, at the speed that guaranteed jobs leave it. Nothing moves. Xiao et al., "AntMan: dynamic scaling on GPU
    clusters for deep learning", OSDI 2020, §5, as far as the simulator of Zhao et al., SIGCOMM 2022, has it.
    """

    name: ClassVar[str] = "antman"
    together: ClassVar[int] = 2
    instead: ClassVar[str] = "gandiva"

    def start(self) -> Colocator:
        """It remembers who reserves what."""
        return _Reservations()


class _Reservations:
    """Who is where.

    Attributes:
        places: job → accelerators that it has or reserves; queue: jobs in the order in which they came.
        complete: jobs that have all that they ask for; given: those of them that ran after the last decision.
        host: (G,) guaranteed job that has or reserves an accelerator; -1 if none; guest: (G,) opportunistic one.
    """

    def __init__(self) -> None:
        self.places, self.queue = dict[int, list[int]](), list[int]()
        self.complete, self.given = set[int](), set[int]()
        self.host = self.guest = np.empty(0, np.int64)

    def decide(self, present: Present) -> Colocation:
        """Whoever finds room starts."""
        row = dict(zip(present.job.tolist(), range(len(present.job)), strict=True))
        gpus, sure = present.gpus.tolist(), np.isfinite(present.deadline).tolist()
        self._take_back(present, row)
        waiting = [job for job in self.queue if job not in self.complete]
        free, room = int((self.host < 0).sum()), int((self.guest < 0).sum())
        for job in waiting:
            if sure[row[job]] and free:
                self._reserve(job, gpus[row[job]], present.node)
                free = int((self.host < 0).sum())
        for job in waiting:
            if not sure[row[job]] and gpus[row[job]] <= room:
                self._join(job, gpus[row[job]])
                room -= gpus[row[job]]
        step, holds = np.full(len(row), np.inf), np.zeros(present.holds.shape, bool)
        for job in self.complete:
            i, places = row[job], self.places[job]
            step[i] = present.step[i] if sure[i] else self._beside(i, places, present, row)
            holds[i, places] = step[i] < np.inf
        self.given = set(present.job[step < np.inf].tolist())
        return Colocation(step, holds, present.overhead)

    def _take_back(self, present: Present, row: dict[int, int]) -> None:
        """What jobs held whose attempts have ended is free; who is new, or has to try again, queues."""
        if not len(self.host):
            self.host, self.guest = np.full((2, len(present.node)), -1)
        runs = set(present.job[present.holds.any(axis=1)].tolist())
        for job in self.given - runs:
            self.complete.remove(job)
            self.host[self.host == job] = -1
            self.guest[self.guest == job] = -1
            del self.places[job]
        new = [job for job in row if job not in self.places]
        self.queue = [job for job in self.queue if job in self.places] + new
        self.places |= {job: [] for job in new}

    def _reserve(self, job: int, gpus: int, node: Ints) -> None:
        """What is free for a guaranteed job: whole nodes as long as it needs them, and the rest on one node.

        On a node only one job waits for more; two might wait for each other.
        """
        size, room = np.bincount(node), np.bincount(node[self.host < 0], minlength=node[-1] + 1)
        own = np.bincount(node[self.host == job], minlength=len(size))
        need = gpus - len(self.places[job])
        if gpus > size.max():
            for whole in np.flatnonzero((room == size) & (own == 0)).tolist():
                if size[whole] <= need:
                    self._take(job, whole, int(size[whole]), node)
                    need, own[whole] = need - int(size[whole]), size[whole]
        begun = (own > 0) & (own < size)
        others = np.isin(self.host, [-1, job, *self.complete], invert=True)
        awaited = np.bincount(node[others], minlength=len(size)) > 0
        enough = size >= need if gpus <= size.max() else size > need  # of a whole one, nothing but all of it
        fine = begun if begun.any() else (own == 0) & enough & ~awaited
        if need and fine.any():
            there = int(np.where(fine, np.minimum(room, need), -1).argmax())
            self._take(job, there, min(need, int(room[there])), node)
        if len(self.places[job]) == gpus:
            self.complete.add(job)

    def _take(self, job: int, there: int, count: int, node: Ints) -> None:
        taken = np.flatnonzero((node == there) & (self.host < 0))[:count]
        self.host[taken] = job
        self.places[job] += taken.tolist()

    def _join(self, job: int, gpus: int) -> None:
        """An opportunistic job takes the least used accelerators without another one; there are enough."""
        used = np.where(self.host < 0, 0, 1 + np.isin(self.host, list(self.complete)))
        order = np.argsort(used, kind="stable")
        places = order[self.guest[order] < 0][:gpus]
        self.guest[places] = job
        self.places[job] = places.tolist()
        self.complete.add(job)

    def _beside(self, own: int, places: list[int], present: Present, row: dict[int, int]) -> float:
        """Seconds of an iteration of an opportunistic job: what the slowest of its hosts allows."""
        hosts = [row[job] for job in self.complete.intersection(self.host[places].tolist())]
        stages, step = present.stages, present.step
        return max([float(step[own]), *(alongside_s(stages[own], stages[host], float(step[host])) for host in hosts)])

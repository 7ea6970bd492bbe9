"""The clock of events as a plain loop over Python's own numbers: what `mfcp.simulator` is held against.

What one writes first who knows Python: jobs that wait are a sorted list, what happens next to running jobs a heap;
keys of running jobs are computed anew at every event, and jobs are taken in order until nothing is left to give. One
pool of accelerators, no failures; the semantics `plain`.
"""

from __future__ import annotations

import heapq
from bisect import insort

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, View

Key = tuple[float, float, int]


def plain_simulate(jobs: Jobs, accelerators: int, policy: Ordering, expected: Floats) -> Floats:
    """(n,) seconds at which jobs end.

    Args:
        jobs: without failures.
        accelerators: of the pool.
        policy: one that does not ask.
        expected: (n,) seconds that jobs are believed to take.
    """
    return np.array(_Loop(jobs, accelerators, policy, expected).run())


class _Loop:
    """Every list has a number for each job; `since` is when `left` and `executed` were last true of a running one."""

    def __init__(self, jobs: Jobs, accelerators: int, policy: Ordering, expected: Floats) -> None:
        n = len(jobs.id)
        keys = policy.keys(View.of(jobs, Cluster.parse(str(accelerators)), expected))
        self.policy, self.free, self.skip = policy, accelerators, policy.skip
        self.value = keys.value.tolist()
        self.weight = np.broadcast_to(np.float64(keys.weight), n).tolist()
        self.limits = keys.limits.tolist()
        self.rank = list(range(len(self.limits) + 1)) if keys.rank is None else keys.rank.tolist()
        self.submit, self.gpus, self.left = jobs.submit.tolist(), jobs.gpus.tolist(), jobs.duration.tolist()
        self.more, self.overhead = (expected - jobs.duration).tolist(), jobs.overhead.tolist()
        self.level, self.executed, self.charge, self.since = [0] * n, [0.0] * n, [0.0] * n, [0.0] * n
        self.seen, self.turn, self.finished = [False] * n, [0] * n, [float("nan")] * n
        self.waiting: list[Key] = []
        self.running: set[int] = set()
        self.next: list[tuple[float, int, int]] = []

    def run(self) -> list[float]:
        arrived, n, infinite = 0, len(self.submit), float("inf")
        while arrived < n or self.next:
            while self.next and self.turn[self.next[0][2]] != self.next[0][1]:
                heapq.heappop(self.next)  # it has stopped since
            happens = self.next[0][0] if self.next else infinite
            now = min(happens, self.submit[arrived] if arrived < n else infinite)
            if now == infinite:
                break
            while self.next and self.next[0][0] <= now:
                _, turn, job = heapq.heappop(self.next)
                if self.turn[job] == turn:
                    self.happen(job, now)
            while arrived < n and self.submit[arrived] <= now:
                insort(self.waiting, self.key(arrived))
                arrived += 1
            self.decide(now)
        return self.finished

    def key(self, job: int) -> Key:
        believed = self.left[job] + self.more[job]
        return self.rank[self.level[job]], self.value[job] + self.weight[job] * max(believed, 0.0), job

    def pass_time(self, job: int, now: float) -> None:
        passed = now - self.since[job]
        self.since[job] = now
        self.executed[job] += passed
        if passed > self.charge[job]:
            self.left[job] -= passed - self.charge[job]
            self.charge[job] = 0.0
        else:
            self.charge[job] -= passed

    def plan(self, job: int) -> None:
        """When the job ends or reaches its next level."""
        seconds = self.charge[job] + self.left[job]
        if self.level[job] < len(self.limits):
            seconds = min(seconds, self.limits[self.level[job]] / self.gpus[job] - self.executed[job])
        self.turn[job] += 1
        heapq.heappush(self.next, (self.since[job] + seconds, self.turn[job], job))

    def happen(self, job: int, now: float) -> None:
        self.pass_time(job, now)
        if self.charge[job] + self.left[job] <= 1e-9 * (self.executed[job] + self.left[job]):
            self.finished[job] = now
            self.running.remove(job)
            self.free += self.gpus[job]
            return
        self.level[job] += 1
        self.plan(job)

    def start(self, job: int, now: float) -> None:
        self.free -= self.gpus[job]
        self.running.add(job)
        self.charge[job] = self.overhead[job] if self.seen[job] else 0.0
        self.seen[job], self.since[job] = True, now
        self.plan(job)

    def stop(self, job: int) -> None:
        self.free += self.gpus[job]
        self.running.remove(job)
        self.turn[job] += 1
        insort(self.waiting, self.key(job))

    def decide(self, now: float) -> None:
        if not self.waiting:
            return
        if self.policy.preempts:
            self.preempt(now)
        elif self.skip == "backfill":
            self.backfill(now)
        else:
            self.start_in_order(now)

    def start_in_order(self, now: float) -> None:
        taken = []
        for position, (_, _, job) in enumerate(self.waiting):
            if self.gpus[job] <= self.free:
                taken.append(position)
                self.start(job, now)
            elif self.skip == "nobody":
                break
            if not self.free:
                break
        for position in reversed(taken):
            del self.waiting[position]

    def preempt(self, now: float) -> None:
        if sum(self.gpus[job] for _, _, job in self.waiting[:8]) <= self.free and len(self.waiting) <= 8:
            for _, _, job in self.waiting:  # nobody has to give way
                self.start(job, now)
            self.waiting = []
            return
        for job in self.running:
            self.pass_time(job, now)
        own = sorted(self.key(job) for job in self.running)
        room, first, starts, stays = self.free + sum(self.gpus[job] for job in self.running), 0, [], set()
        for position, (rank, value, job) in enumerate(self.waiting):
            while first < len(own) and own[first] < (rank, value, job) and room:
                room -= self.take(own[first][2], room, stays)
                first += 1
            if not room:
                break
            if self.gpus[job] <= room:
                room -= self.gpus[job]
                starts.append(position)
            elif self.skip == "nobody":
                room = 0
        for _, _, job in own[first:]:
            room -= self.take(job, room, stays)
        chosen = [self.waiting[position][2] for position in starts]
        for position in reversed(starts):
            del self.waiting[position]
        for job in [job for job in self.running if job not in stays]:
            self.stop(job)
        for job in chosen:
            self.start(job, now)

    def take(self, job: int, room: int, stays: set[int]) -> int:
        if self.gpus[job] > room:
            return 0
        stays.add(job)
        return self.gpus[job]

    def backfill(self, now: float) -> None:
        """Who is first in line and does not fit gets a reservation; others may pass if they do not delay it."""
        taken, shadow, spare = list[int](), float("inf"), 0
        blocked = False
        for position, (_, _, job) in enumerate(self.waiting):
            need = self.gpus[job]
            if not blocked:
                if need <= self.free:
                    taken.append(position)
                    self.start(job, now)
                    continue
                blocked = True
                shadow, spare = self.reserve(need, now)
            if need <= self.free:
                early = now + max(self.left[job] + self.more[job], 0.0) <= shadow
                if early or need <= spare:
                    spare -= 0 if early else need
                    taken.append(position)
                    self.start(job, now)
            if not self.free:
                break
        for position in reversed(taken):
            del self.waiting[position]

    def reserve(self, need: int, now: float) -> tuple[float, int]:
        """When so many are believed to be free, and how many more then."""
        for job in self.running:
            self.pass_time(job, now)
        ends = sorted((now + max(self.left[job] + self.more[job], 0.0), self.gpus[job]) for job in self.running)
        there, position = self.free, 0
        while position < len(ends):
            end = ends[position][0]
            while position < len(ends) and ends[position][0] == end:
                there += ends[position][1]
                position += 1
            if there >= need:
                return end, there - need
        return float("inf"), 0

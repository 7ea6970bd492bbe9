"""The clock of events where jobs share accelerators, cores and memory, and a placement scores the nodes."""

from __future__ import annotations

import heapq

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError, SettingsError
from mfcp.simulator.course import Course
from mfcp.simulator.kernels.books import STARTED
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.placement.filling import look
from mfcp.simulator.placement.machines import WHOLE, Machines, Placement, Requests
from mfcp.simulator.policies.base import Ordering, View


def run_shared(course: Course, policy: Ordering, view: View, placement: Placement, speed: Floats, seed: int) -> Outcome:
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    A job runs on one node, on parts of accelerators if it asks for parts, at the speed of the node's type.

    Raises:
        SettingsError: the policy preempts, reserves or asks at every event.
        DataError: a job that no empty node can serve.
    """
    if policy.preempts or policy.asks or policy.skip == "backfill":
        raise SettingsError(
            f"placement '{placement.name}' goes with policies that start jobs by a fixed order and let them run, such "
            f"as fifo, sjf and qssf; not with '{policy.name}'"
        )
    run = _Shared(course, policy, view, placement, speed, seed)
    while run.step():
        pass
    return course.outcome({"events": run.events, "looks": run.looks})


class _Shared:
    """What the clock needs besides the course.

    Attributes:
        kind: (n,) request of each job; queues: for each kind, a heap of (key, job) that wait.
        fits, scores: (S, L) of every kind of request on every node, kept up to date.
        ends: heap of (seconds, job); held: job → node, accelerators there, and seconds of the attempt.
    """

    def __init__(
        self, course: Course, policy: Ordering, view: View, placement: Placement, speed: Floats, seed: int
    ) -> None:
        self.course, self.policy, self.placement, self.speed = course, policy, placement, speed
        self.random, self.events, self.looks = np.random.default_rng(seed), 0, 0
        cluster, self.key = course.cluster, policy.keys(view).before_start(view.expected)
        policy.check_known(self.key)
        self.requests, self.kind = _requests(course, speed)
        self.machines = Machines.empty(cluster.cpu, cluster.memory, cluster.size, cluster.type, len(self.requests.cpu))
        self.fits, self.scores = (np.zeros((len(self.requests.cpu), len(cluster.size)), kind) for kind in (bool, float))
        for node in range(len(cluster.size)):
            self.look(node)
        nowhere = ~np.any(self.fits, axis=1)
        for job in np.flatnonzero(nowhere[self.kind])[:1]:
            raise DataError(
                f"job {course.jobs.id[job]} fits on no empty node: {course.jobs.gpus[job]} accelerators, "
                f"{course.jobs.cpu[job]:,} thousandths of a core, {course.jobs.memory[job]:,} MiB; leave it out, or "
                "take larger nodes"
            )
        self.queues: list[list[tuple[float, int]]] = [[] for _ in self.requests.cpu]
        self.ends: list[tuple[float, int]] = []
        self.held: dict[int, tuple[int, Ints, float]] = {}

    def look(self, node: int) -> None:
        """Fits and scores of a node that has changed."""
        look(self.machines, self.requests, self.placement, node, self.fits, self.scores)
        self.looks += 1

    def step(self) -> bool:
        """To the next event; whether there is one."""
        course = self.course
        event = min(course.next_arrival(), self.ends[0][0] if self.ends else np.inf)
        if event == np.inf:
            return False
        course.now = event
        self.events += 1
        while self.ends and self.ends[0][0] <= event:
            self.end(heapq.heappop(self.ends)[1])
        for job in course.arrive():
            self.queue(int(job))
        while (job := self.next()) is not None:
            self.start(job)
        return True

    def queue(self, job: int) -> None:
        """A job waits."""
        heapq.heappush(self.queues[self.kind[job]], (float(self.key[job]), job))

    def next(self) -> int | None:
        """The first job in order that may start now, and does not wait any more."""
        waiting = [kind for kind, queue in enumerate(self.queues) if queue]
        if self.policy.skip == "any":
            waiting = [kind for kind in waiting if self.fits[kind].any()]
        first = min(waiting, key=lambda kind: self.queues[kind][0], default=None)
        if first is None or not self.fits[first].any():
            return None
        return heapq.heappop(self.queues[first])[1]

    def start(self, job: int) -> None:
        """Place a job."""
        course, kind = self.course, int(self.kind[job])
        node = self.placement.choose(self.scores[kind], self.fits[kind], self.random)
        devices = self.placement.devices(self.machines, self.requests, kind, node, self.random)
        self.machines.take(self.requests, kind, node, devices)
        self.look(node)
        rest = (course.left[job] - course.goal[job]) * course.jobs.step[job]
        overhead = 0.0 if np.isnan(course.started[job]) else course.jobs.overhead[job]
        seconds = rest / self.speed[job, course.cluster.type[node]] + overhead
        heapq.heappush(self.ends, (course.now + float(seconds), job))
        self.held[job] = node, devices, float(seconds)
        row = np.array([job])
        course.begin(row)
        course.log.add(course.now, row, STARTED, course.jobs.gpus[row], node)

    def end(self, job: int) -> None:
        """An attempt ends, and what it held is free."""
        course, row = self.course, np.array([job])
        node, devices, seconds = self.held.pop(job)
        self.machines.give_back(self.requests, int(self.kind[job]), node, devices)
        self.look(node)
        course.executed[job] += seconds
        course.held[job] += seconds * course.jobs.gpus[job] * course.jobs.milli[job] / WHOLE
        now = np.array([course.now])
        if course.end(row, now, course.jobs.gpus[row], np.array([node]))[0]:
            self.queue(job)


def _requests(course: Course, speed: Floats) -> tuple[Requests, Ints]:
    """The S kinds of requests of the jobs, and (n,) the kind of each."""
    jobs = course.jobs
    for job in np.flatnonzero((jobs.milli < WHOLE) & (jobs.gpus > 1))[:1]:
        raise DataError(
            f"job {jobs.id[job]} asks for {jobs.milli[job]} thousandths of each of {jobs.gpus[job]} accelerators; "
            "parts are of one accelerator: leave it out, or give it whole ones"
        )
    columns = np.column_stack([jobs.cpu, jobs.memory, jobs.gpus, jobs.milli, speed > 0]).astype(np.int64)
    rows, kind = np.unique(columns, axis=0, return_inverse=True)
    cpu, memory, gpus, milli = rows[:, :4].T.copy()
    weight = np.bincount(kind.ravel()) / len(kind)
    return Requests(cpu, memory, gpus, milli, rows[:, 4:].astype(bool), weight), kind.ravel()

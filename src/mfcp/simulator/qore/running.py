"""Jobs of workers and parameter servers on hosts: who waits, who runs with how much, and when they end.

A job's iterations are shared by its workers, each of which runs one in a time that depends on its CPU and memory. The
queue is ordered, jobs are sized before they start (`Sizes`), and Qore-DL's adjuster may change those that run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SolverError
from mfcp.simulator.qore.adjuster import FLOORS, Running, Times, adjust
from mfcp.simulator.qore.equations import (
    THRESHOLDS,
    RunningJobs,
    Thresholds,
    available_time,
    priority,
    requirement,
    worker_count,
)
from mfcp.simulator.qore.hosts import Hosts, Spread

WAITS, RUNS, DONE = 0, 1, 2
LESS_CPU = 0.85
"""Of the CPU that a job asks for when it comes again because it did not fit; read."""
LEAST_CPU = float(FLOORS[0])
"""Of its peak, below which it does not go: the adjuster's floor."""
Order = Literal["fifo", "edf", "srsf", "qore"]


@dataclass(frozen=True)
class HostedJobs:
    """n jobs as they are.

    Attributes:
        submit: (n,) seconds, ascending; deadline: (n,) seconds after it.
        limit: (n,) iterations of one worker that the user asks for.
        needed: (n,) those after which the job has converged, at most the limit.
        asked: (n,) workers that the user asks for.
        peak, server: (n, 2) CPU and memory that a worker and a parameter server use at most.
        seconds: what an iteration takes, by CPU and memory of a worker.
    """

    submit: Floats
    deadline: Floats
    limit: Floats
    needed: Floats
    asked: Ints
    peak: Floats
    server: Floats
    seconds: Times

    def one(self, rows: Ints, given: Floats) -> Floats:
        """(k,) seconds of an iteration of jobs (k,) at (k, 2)."""
        return self.seconds(rows, given[:, None])[:, 0]


@dataclass(frozen=True)
class Predicted:
    """What is predicted of n jobs: `seconds` as of `HostedJobs`, and (n,) iterations `needed` once a job runs."""

    seconds: Times
    needed: Floats


class HostedTerms(BaseModel):
    """How jobs are sized, ordered, placed and changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    order: Order = Field("fifo", description="of the queue: submission, deadline, least need × time, or Eq. 8")
    sized: bool = Field(False, description="whether the configurator sizes jobs (Eq. 5), else the user does")
    generous: float = Field(1.3, ge=1, description="what users ask for, over what a job uses at most")
    spread: Spread = Field("first", description="which host a part of a job takes")
    servers: bool = Field(True, description="whether jobs have parameter servers; workers of a ring have none")
    adjusts: bool = Field(False, description="whether Qore-DL's adjuster changes running jobs")
    search: Literal["exhaustive", "genetic"] = Field("exhaustive", description="of the adjuster")
    thresholds: Thresholds = Field(
        THRESHOLDS, description="of the load: light, free to grow, and heavy; what the order and the adjuster go by"
    )
    tick_s: float = Field(120.0, gt=0, description="seconds between two changes of sizes")
    change_s: float = Field(10.0, ge=0, description="seconds without progress of a job whose size changes")


@dataclass(frozen=True)
class Seen:
    """What one who sizes all jobs at once sees of k jobs: by the same predictions as the configurator.

    Attributes:
        row: (k,) which they are, in the order of submission.
        left: (k,) iterations believed to be left, of one worker; done: (k,) so far.
        seconds: (k,) of an iteration at full size.
        available: (k,) seconds until the deadline.
        need: (k,) weighted part of the cluster that one worker takes; all together may take 1.
    """

    row: Ints
    left: Floats
    done: Floats
    seconds: Floats
    available: Floats
    need: Floats


Sizes = Callable[[Seen], Ints]
"""(k,) workers of all jobs, 0 to wait."""


@dataclass
class HostedOutcome:
    """What has come of it: (n,) `started` and `finished` seconds, and `held`, weighted parts of the cluster × s."""

    jobs: HostedJobs
    started: Floats
    finished: Floats
    held: Floats
    changes: int = 0

    @property
    def met(self) -> Bools:
        """(n,) whether a job has kept its deadline."""
        return self.finished - self.jobs.submit <= self.jobs.deadline

    def metrics(self) -> dict[str, float]:
        """Shares of deadlines met, by count and by work; of all that was held, what jobs on time held; mean JCT."""
        worth = self.jobs.needed * self.jobs.one(np.arange(len(self.met)), self.jobs.peak)
        return {
            "deadlines_met": float(self.met.mean()), "work_met": float((worth * self.met).sum() / worth.sum()),
            "held_h": float(self.held.sum() / 3600), "useful": float(self.held[self.met].sum() / self.held.sum()),
            "mean_jct_s": float((self.finished - self.jobs.submit).mean()), "changes": float(self.changes),
        }  # fmt: skip


def run_on_hosts(
    jobs: HostedJobs,
    believed: Predicted,
    capacity: Floats,
    terms: HostedTerms,
    sizes: Sizes | None = None,
    seed: int = 0,
) -> HostedOutcome:
    """Run all jobs to their end.

    Args:
        jobs: what is true.
        believed: what is predicted.
        capacity: (L, 2) CPU and memory of the hosts.
        terms: how jobs are sized, ordered, placed and changed.
        sizes: who sizes all jobs at once, at every event and tick, instead of the queue.
        seed: of a genetic search.

    Raises:
        SolverError: a job never fits.
    """
    run = _Run(jobs, believed, capacity, terms, sizes, seed)
    while (run.status != DONE).any():
        run.step()
    return run.outcome


class _Run:
    """The state of a run.

    Attributes:
        status, workers: (n,); done: (n,) iterations; still: (n,) seconds without progress to come.
        given: (n, 2) of each worker; shrunk: (n,) part of its CPU that a job asks for when it comes again.
        seconds: (n,) true ones of an iteration; on: hosts of a job's servers and workers.
    """

    def __init__(
        self,
        jobs: HostedJobs,
        believed: Predicted,
        capacity: Floats,
        terms: HostedTerms,
        sizes: Sizes | None,
        seed: int,
    ) -> None:
        n = len(jobs.submit)
        self.jobs, self.believed, self.terms, self.sizes, self.hosts = jobs, believed, terms, sizes, Hosts(capacity)
        self.total, self.now, self.arrived, self.next_tick = capacity.sum(axis=0), 0.0, 0, terms.tick_s
        self.status, self.done, self.still = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        self.shrunk, self.seconds = np.ones(n), np.full(n, np.inf)
        self.given = jobs.peak * (1.0 if terms.sized else terms.generous)
        self.on: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))] * n
        self.workers = np.zeros(n, np.int64)
        self.outcome = HostedOutcome(jobs, np.full(n, np.nan), np.full(n, np.nan), np.zeros(n))
        self.rng = np.random.default_rng(seed)

    def step(self) -> None:
        """To the next event, and decide."""
        running = np.flatnonzero(self.status == RUNS)
        ends = self.now + self.still[running] + self.rest(running) * self.seconds[running] / self.workers[running]
        coming = self.jobs.submit[self.arrived] if self.arrived < len(self.jobs.submit) else np.inf
        tick = self.next_tick if len(running) and (self.terms.adjusts or self.sizes is not None) else np.inf
        event = min(coming, ends.min(initial=np.inf), tick)
        if event == np.inf:
            raise SolverError("a job fits on no host even alone; give hosts more, or leave it out")
        self.pass_time(float(event), running)
        over = running[ends <= event + 1e-9]
        self.finish(over)
        self.arrived = int(np.searchsorted(self.jobs.submit, self.now, side="right"))
        ticked = self.now >= self.next_tick
        if ticked:
            self.next_tick = (np.floor(self.now / self.terms.tick_s) + 1) * self.terms.tick_s
        if self.sizes is not None:
            self.size_all(self.sizes)
            return
        self.start()
        while not (self.status == RUNS).any() and self.shrunk[self.status == WAITS].max(initial=0) > LEAST_CPU:
            before = self.shrunk.copy()
            self.start()
            if (before == self.shrunk).all():
                break
        if ticked and self.terms.adjusts:
            self.adjust()
            self.start()

    def rest(self, rows: Ints) -> Floats:
        """(k,) iterations that are truly left."""
        return np.asarray(np.maximum(self.jobs.needed[rows] - self.done[rows], 0.0))

    def pass_time(self, until: float, running: Ints) -> None:
        """All that run go on; what they hold is counted."""
        spent = until - self.now
        self.outcome.held[running] += spent * self.need(running, self.workers[running])
        progress = np.maximum(spent - self.still[running], 0.0) * self.workers[running] / self.seconds[running]
        self.still[running] = np.maximum(self.still[running] - spent, 0.0)
        self.done[running] = np.minimum(self.done[running] + progress, self.jobs.needed[running])
        self.now = until

    def need(self, rows: Ints, workers: Ints) -> Floats:
        """(k,) Eqs. 6 and 7 at what jobs are given."""
        servers = np.array([len(self.on[row][0]) for row in rows], np.int64)
        return requirement(workers, servers, self.given[rows], self.jobs.server[rows], self.total)

    def finish(self, rows: Ints) -> None:
        """Jobs end, and their parts go."""
        for row in rows:
            self.take_off(row)
        self.status[rows], self.outcome.finished[rows] = DONE, self.now

    def take_off(self, row: int) -> None:
        """All parts of a job go."""
        servers, workers = self.on[row]
        self.hosts.free(servers, self.jobs.server[row])
        self.hosts.free(workers, self.given[row])
        self.on[row], self.workers[row], self.status[row] = (servers[:0], workers[:0]), 0, WAITS

    def left(self, rows: Ints) -> Floats:
        """(k,) iterations of one worker that are believed to be left: of a job that waits, up to its limit."""
        whole = np.where(self.done[rows] > 0, self.believed.needed[rows], self.jobs.limit[rows])
        return np.asarray(np.maximum(whole - self.done[rows], 0.01 * whole))

    def available(self, rows: Ints) -> Floats:
        """(k,) Eq. 9."""
        return available_time(self.jobs.deadline[rows], self.jobs.submit[rows], self.now)

    def start(self) -> None:
        """The queue in its order; whoever fits starts."""
        rows = np.flatnonzero(self.status[: self.arrived] == WAITS)
        if not len(rows):
            return
        seconds = self.believed.seconds(rows, self.given[rows][:, None])[:, 0]
        load, available, left = self.hosts.cluster_load, self.available(rows), self.left(rows)
        workers = self.jobs.asked[rows]
        servers = np.ceil(workers / 2).astype(np.int64)
        if self.terms.sized:
            workers, servers = worker_count(left, seconds, available, load)
        servers = servers * self.terms.servers
        need = requirement(workers, servers, self.given[rows], self.jobs.server[rows], self.total)
        by = {
            "fifo": self.jobs.submit[rows], "edf": (self.jobs.submit + self.jobs.deadline)[rows],
            "srsf": need * left * seconds / workers,
            "qore": -priority(need, available, load, self.terms.thresholds),
        }  # fmt: skip
        for i in np.argsort(by[self.terms.order], kind="stable"):
            self.put(int(rows[i]), int(servers[i]), int(workers[i]))

    def put(self, row: int, servers: int, workers: int) -> None:
        """Start a job with as many of its workers as fit; one that does not fit comes again with less CPU."""
        given = self.given[row] * np.array([self.shrunk[row], 1.0])
        spread = self.terms.spread
        on = self.hosts.place(servers, workers, self.jobs.server[row], given, spread)
        if not len(on[1]):
            if self.terms.sized and self.shrunk[row] > LEAST_CPU:
                self.shrunk[row] *= LESS_CPU
            return
        self.given[row], self.shrunk[row] = given, 1.0
        self.on[row], self.workers[row], self.status[row] = on, len(on[1]), RUNS
        self.seconds[row] = self.jobs.one(np.array([row]), given[None])[0]
        if np.isnan(self.outcome.started[row]):
            self.outcome.started[row] = self.now

    def adjust(self) -> None:
        """Changes of Qore-DL's adjuster, where hosts have room for them."""
        rows = np.flatnonzero(self.status == RUNS)
        if not len(rows):
            return
        given, workers = self.given[rows], self.workers[rows]
        left, done = self.left(rows) / workers, self.done[rows] / workers
        seconds = self.believed.seconds(rows, given[:, None])[:, 0]
        seen = RunningJobs(seconds, left + done, done, left, workers, self.need(rows, workers))
        running = Running(seen, self.available(rows), given, self.jobs.peak[rows])

        def times(some: Ints, sizes: Floats) -> Floats:
            return self.believed.seconds(rows[some], sizes)

        changes = adjust(
            running, self.hosts.cluster_load, times, search=self.terms.search, rng=self.rng,
            thresholds=self.terms.thresholds,
        )  # fmt: skip
        for change in sorted(changes, key=lambda each: each.workers):  # what gives back comes first
            self.apply(int(rows[change.job]), change.workers, change.given)

    def apply(self, row: int, workers: int, given: Floats) -> None:
        """One change, if there is room."""
        servers, on = self.on[row]
        if workers > 0:
            host = self.hosts.host_for(self.given[row], self.terms.spread, int(on[-1]))
            if host < 0:
                return
            self.hosts.used[host] += self.given[row]
            on = np.append(on, host)
        elif workers < 0:
            self.hosts.free(on[-1:], self.given[row])
            on = on[:-1]
        elif not self.hosts.resize(on, self.given[row], given):
            return
        self.on[row], self.workers[row], self.given[row] = (servers, on), len(on), given
        self.seconds[row] = self.jobs.one(np.array([row]), given[None])[0]
        self.still[row] = self.terms.change_s
        self.outcome.changes += 1

    def size_all(self, sizes: Sizes) -> None:
        """Ask for the workers of all jobs; those that change are put anew, in the order of submission.

        A job that finds no room for more than it had goes on as before, and pays nothing.
        """
        rows = np.flatnonzero(self.status[: self.arrived] != DONE)
        if not len(rows):
            return
        waits = rows[self.status[rows] == WAITS]
        self.given[waits] = self.jobs.peak[waits]
        seconds = self.believed.seconds(rows, self.given[rows][:, None])[:, 0]
        two, server = np.full(len(rows), 2), np.full(len(rows), int(self.terms.servers))  # a server serves two workers
        one = requirement(two, server, self.given[rows], self.jobs.server[rows], self.total) / 2
        wanted = sizes(Seen(rows, self.left(rows), self.done[rows], seconds, self.available(rows), one))
        changed = wanted != self.workers[rows]
        before = self.workers[rows].copy()
        for row in rows[changed & (before > 0)]:
            self.take_off(row)
        for i in np.flatnonzero(changed & (wanted > 0)):
            self.put(int(rows[i]), int(np.ceil(wanted[i] / 2)) * self.terms.servers, int(wanted[i]))
        for row in rows[self.workers[rows] == 0]:  # nobody is left out where a worker still fits
            self.put(int(row), int(self.terms.servers), 1)
        resized = rows[(before > 0) & (self.workers[rows] != before)]
        self.still[resized] = self.terms.change_s
        self.outcome.changes += len(resized)

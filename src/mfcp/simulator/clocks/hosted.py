"""The clock of hosts: jobs of workers and parameter servers, who waits, and who runs with how much.

A job's iterations are shared by its workers, each of which runs one in a time that depends on what it is given. Events
are submissions, ends, and ticks at which running jobs may be changed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError
from mfcp.simulator.clocks.hosted_parts import HostedParts
from mfcp.simulator.course import Course
from mfcp.simulator.kernels.books import RESIZED, STARTED, STOPPED
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.hosting import Hosting, Queueing, Resizing, SizeWish
from mfcp.simulator.qore.adjuster import FLOORS, Running, adjust
from mfcp.simulator.qore.equations import RunningJobs, available_time, priority, requirement, share, worker_count
from mfcp.simulator.qore.hosts import Hosts

WAITS, RUNS, GONE = 0, 1, 2
LESS_CPU = 0.85
"""Of the CPU that a job asks for when it comes again because it did not fit; read."""
LEAST_CPU = float(FLOORS[1])
"""Of its peak, below which it does not go: the adjuster's floor."""


def run_hosted(course: Course, policy: Hosting, parts: HostedParts, seed: int = 0) -> Outcome:
    """Run all jobs to their end; see `mfcp.simulator.simulation.simulate`.

    Raises:
        DataError: a job never fits.
    """
    run = _Hosted(course, policy, parts, seed)
    run.check_fits()
    while run.step():
        pass
    return replace(course.outcome({"decisions": run.decisions, "changes": run.changes}), taken=run.taken)


class _Hosted:
    """What hosts need besides the course.

    Attributes:
        status, workers: (n,); still: (n,) seconds without progress to come; taken: (n,) see `Outcome`.
        given: (n, 3) of each worker; shrunk: (n,) part of its CPU that a job asks for when it comes again.
        rate: (n,) true iterations per second; on: hosts of a job's servers and workers.
    """

    def __init__(self, course: Course, policy: Hosting, parts: HostedParts, seed: int) -> None:
        n = len(course.jobs.id)
        self.course, self.policy, self.parts, self.hosts = course, policy, parts, Hosts(parts.capacity)
        self.total, self.next_tick = parts.capacity.sum(axis=0), policy.tick_s
        self.status, self.still, self.taken = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        self.shrunk, self.rate, self.workers = np.ones(n), np.zeros(n), np.zeros(n, np.int64)
        self.given = parts.peak.copy()
        self.shrinks = not isinstance(policy, Queueing) or policy.sized
        if isinstance(policy, Queueing) and not policy.sized:
            self.given[:, 1:] *= policy.generous
        self.on: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))] * n
        overhead = course.jobs.overhead
        self.cost = np.where(overhead > 0, overhead, policy.change_s)
        self.rng, self.decisions, self.changes = np.random.default_rng(seed), 0, 0

    def check_fits(self) -> None:
        """A worker, and a server if jobs have some, must fit on an empty host; both together, only a run tells.

        Raises:
            DataError: one does not.
        """
        least = 1.0
        while self.shrinks and least > LEAST_CPU:
            least *= LESS_CPU
        fits = self.hosts.room(self.given * [1.0, least, 1.0])
        if self.policy.servers:
            fits &= self.hosts.room(self.parts.server)
        for row in np.flatnonzero(~fits)[:1]:
            raise self.too_large(int(row))

    def too_large(self, row: int) -> DataError:
        """What to say of a job that never fits."""
        accelerators, cpu, memory = self.given[row]
        return DataError(
            f"job {self.course.jobs.id[row]} fits on no host even alone: a worker needs {accelerators:g} accelerators, "
            f"{cpu:,.10g} of CPU and {memory:,.10g} of memory; give hosts more, or leave it out"
        )

    def step(self) -> bool:
        """To the next event, and decide; whether there is one."""
        course, policy = self.course, self.policy
        running = np.flatnonzero(self.status == RUNS)
        ends = course.now + self.still[running] + self.rest(running) / self.rate[running]
        changes = isinstance(policy, Resizing) or (isinstance(policy, Queueing) and policy.adjusts)
        tick = self.next_tick if len(running) and changes else np.inf
        event = float(min(course.next_arrival(), ends.min(initial=np.inf), tick))
        if event == np.inf:
            for row in np.flatnonzero(self.status == WAITS)[:1]:
                raise self.too_large(int(row))
            return False
        self.pass_time(event, running, ends)
        course.arrive()
        ticked = course.now >= self.next_tick
        if ticked:
            self.next_tick = (np.floor(course.now / policy.tick_s) + 1) * policy.tick_s
        self.decisions += 1
        if isinstance(policy, Resizing):
            self.size_all(policy)
        elif isinstance(policy, Queueing):
            self.queue(policy, ticked)
        return True

    def rest(self, rows: Ints) -> Floats:
        """(k,) iterations that are truly left of this attempt."""
        return np.asarray(self.course.left[rows] - self.course.goal[rows])

    def pass_time(self, until: float, running: Ints, ends: Floats) -> None:
        """All that run go on, and what they hold is counted; some end."""
        course = self.course
        spent = until - course.now
        self.taken[running] += spent * self.need(running, self.workers[running])
        course.executed[running] += spent
        course.held[running] += spent * self.accelerators(running)
        progress = np.maximum(spent - self.still[running], 0.0) * self.rate[running]
        self.still[running] = np.maximum(self.still[running] - spent, 0.0)
        course.left[running] = np.maximum(course.left[running] - progress, course.goal[running])
        course.now = until
        rows = running[ends <= until + 1e-9]
        if not len(rows):
            return
        again = course.end(rows, np.full(len(rows), until), self.accelerators(rows), self.first_host(rows))
        for row in rows:
            self.take_off(row)
        self.status[rows] = np.where(again, WAITS, GONE)

    def accelerators(self, rows: Ints) -> Ints:
        """(k,) that jobs hold."""
        return np.asarray(np.rint(self.workers[rows] * self.parts.peak[rows, 0]), np.int64)

    def first_host(self, rows: Ints) -> Ints:
        """(k,) of the first worker of jobs that run."""
        return np.array([self.on[row][1][0] for row in rows], np.int64)

    def need(self, rows: Ints, workers: Ints) -> Floats:
        """(k,) Eqs. 6 and 7 at what jobs are given."""
        servers = np.array([len(self.on[row][0]) for row in rows], np.int64)
        return requirement(workers, servers, self.given[rows], self.parts.server[rows], self.total)

    def take_off(self, row: int) -> None:
        """All parts of a job go."""
        servers, workers = self.on[row]
        self.hosts.free(servers, self.parts.server[row])
        self.hosts.free(workers, self.given[row])
        self.on[row], self.workers[row], self.status[row] = (servers[:0], workers[:0]), 0, WAITS

    def left(self, rows: Ints) -> Floats:
        """(k,) iterations that are believed to be left: of a job that has not run, up to its limit."""
        course, limit = self.course, self.parts.limit
        if course.losses is not None:
            return course.believed_left(rows)
        total, left, whole = course.jobs.iterations[rows], course.left[rows], course.all_iterations(rows)
        if len(limit):
            whole = np.where(left < total, whole, limit[rows])
        return np.asarray(np.maximum(whole - (total - left), 0.01 * whole))

    def seconds(self, rows: Ints) -> Floats:
        """(k,) that an iteration is believed to take at what jobs are given."""
        return self.parts.believed(rows, self.given[rows][:, None])[:, 0]

    def available(self, rows: Ints) -> Floats:
        """(k,) Eq. 9."""
        jobs = self.course.jobs
        return available_time(jobs.deadline[rows] - jobs.submit[rows], jobs.submit[rows], self.course.now)

    def waiting(self) -> Ints:
        """(k,) rows of those who have come and do not run."""
        return np.flatnonzero(self.status[: self.course.arrived] == WAITS)

    def queue(self, policy: Queueing, ticked: bool) -> None:
        """Start who fits, and change those that run."""
        self.start(policy)
        while not (self.status == RUNS).any() and self.shrunk[self.waiting()].max(initial=0) > LEAST_CPU:
            before = self.shrunk.copy()
            self.start(policy)
            if (before == self.shrunk).all():
                break
        if ticked and policy.adjusts:
            self.adjust(policy)
            self.start(policy)

    def start(self, policy: Queueing) -> None:
        """The queue in its order; whoever fits starts, the others come again with less CPU."""
        rows = self.waiting()
        asks = self.given[rows].copy()
        asks[:, 1] *= self.shrunk[rows]
        fits = self.hosts.room(asks)  # hosts only get fuller while others start
        self.shrink(rows[~fits])
        rows = rows[fits]
        if not len(rows):
            return
        seconds, load = self.seconds(rows), self.hosts.cluster_load
        available, left, jobs = self.available(rows), self.left(rows), self.course.jobs
        workers = jobs.gpus[rows]
        servers = np.ceil(workers / 2).astype(np.int64)
        if policy.sized:
            sized, beside = worker_count(left, seconds, available, load, policy.workers)
            dated = np.isfinite(available)  # who has no deadline has as many as its user says
            workers, servers = np.where(dated, sized, workers), np.where(dated, beside, servers)
        servers = servers * policy.servers
        need = requirement(workers, servers, self.given[rows], self.parts.server[rows], self.total)
        by = {
            "fifo": jobs.submit[rows], "edf": jobs.deadline[rows], "srsf": need * left * seconds / workers,
            "qore": -priority(need, available, load, policy.thresholds),
        }  # fmt: skip
        for i in np.argsort(by[policy.order], kind="stable"):
            row = int(rows[i])
            if self.put(row, int(servers[i]), int(workers[i])):
                self.tell(STARTED, rows[i : i + 1])

    def shrink(self, rows: Ints) -> None:
        """Jobs for which there is no room for want of CPU come again with less, unless they have what users say."""
        if self.shrinks and len(rows):
            helps = (self.shrunk[rows] > LEAST_CPU) & self.hosts.room(self.given[rows] * [1.0, 0.0, 1.0])
            self.shrunk[rows[helps]] *= LESS_CPU

    def put(self, row: int, servers: int, workers: int) -> bool:
        """Place a job with as many of its workers as fit; whether the least does."""
        given = self.given[row] * [1.0, self.shrunk[row], 1.0]
        on = self.hosts.place(servers, workers, self.parts.server[row], given, self.policy.spread)
        if not len(on[1]):
            self.shrink(np.array([row]))
            return False
        self.given[row], self.shrunk[row], self.on[row], self.status[row] = given, 1.0, on, RUNS
        self.goes(row)
        return True

    def goes(self, row: int) -> None:
        """A job's workers have changed: its rate follows."""
        rows = np.array([row])
        self.workers[row] = len(self.on[row][1])
        seconds = self.parts.seconds(rows, self.given[rows][:, None])[0, 0]
        self.rate[row] = self.parts.together(rows, self.workers[rows])[0] / seconds

    def tell(self, event: int, rows: Ints) -> None:
        """Jobs that run have been started or changed."""
        course = self.course
        course.log.add(course.now, rows, event, self.accelerators(rows), self.first_host(rows))
        if event == STARTED:
            course.begin(rows)
        else:
            self.charge(rows)

    def charge(self, rows: Ints) -> None:
        """Jobs that are changed or stopped make no progress for a while when they run."""
        self.still[rows] = self.cost[rows]
        self.changes += len(rows)

    def adjust(self, policy: Queueing) -> None:
        """Changes of Qore-DL's adjuster, where hosts have room for them."""
        rows = np.flatnonzero(self.status == RUNS)
        if not len(rows):
            return
        given, workers = self.given[rows], self.workers[rows]
        done = (self.course.jobs.iterations[rows] - self.course.left[rows]) / workers
        left = self.left(rows) / workers
        seen = RunningJobs(self.seconds(rows), left + done, done, left, workers, self.need(rows, workers))
        running = Running(seen, self.available(rows), given, self.parts.peak[rows])

        def times(some: Ints, sizes: Floats) -> Floats:
            return self.parts.believed(rows[some], sizes)

        changes = adjust(
            running, self.hosts.cluster_load, times, search=policy.search, rng=self.rng, thresholds=policy.thresholds
        )
        for change in sorted(changes, key=lambda each: each.workers):  # what gives back comes first
            row = int(rows[change.job])
            if self.apply(row, change.workers, change.given):
                self.goes(row)
                self.tell(RESIZED, np.array([row]))

    def apply(self, row: int, workers: int, given: Floats) -> bool:
        """One change; whether there is room."""
        servers, on = self.on[row]
        if workers > 0:
            host = self.hosts.host_for(self.given[row], self.policy.spread, int(on[-1]))
            if host < 0:
                return False
            self.hosts.used[host] += self.given[row]
            on = np.append(on, host)
        elif workers < 0:
            self.hosts.free(on[-1:], self.given[row])
            on = on[:-1]
        elif not self.hosts.resize(on, self.given[row], given):
            return False
        self.on[row], self.given[row] = (servers, on), given
        return True

    def size_all(self, policy: Resizing) -> None:
        """Ask for the workers of all jobs; those that change are put anew, in the order of submission.

        A job that finds no room for more than it had goes on as before, and pays nothing.
        """
        rows = np.flatnonzero(self.status[: self.course.arrived] != GONE)
        if not len(rows):
            return
        waits = rows[self.status[rows] == WAITS]
        self.given[waits] = self.parts.peak[waits]
        servers = float(policy.servers)  # one serves two workers
        one = share(self.given[rows] + servers * self.parts.server[rows] / 2, self.total)
        done = self.course.jobs.iterations[rows] - self.course.left[rows]
        left, available = self.left(rows), self.available(rows)
        cost, seconds, falls = one @ self.hosts.weight, self.seconds(rows), self.course.falls
        wanted = policy.sizes(SizeWish(rows, left, done, seconds, available, one, cost, falls))
        before = self.workers[rows].copy()
        gpus, first = self.accelerators(rows), np.array([(*self.on[row][1], -1)[0] for row in rows], np.int64)
        changed = wanted != before
        for row in rows[changed & (before > 0)]:
            self.take_off(row)
        for i in np.flatnonzero(changed & (wanted > 0)):
            self.put(int(rows[i]), int(np.ceil(wanted[i] / 2)) * policy.servers, int(wanted[i]))
        for row in rows[self.workers[rows] == 0]:  # nobody is left out where a worker still fits
            self.put(int(row), int(policy.servers), 1)
        now, off = self.workers[rows], (before > 0) & (self.workers[rows] == 0)
        self.course.log.add(self.course.now, rows[off], STOPPED, gpus[off], first[off])
        self.course.stops[rows[off]] += 1
        self.charge(rows[off])
        self.tell(STARTED, rows[(before == 0) & (now > 0)])
        self.tell(RESIZED, rows[(before > 0) & (now > 0) & (now != before)])

"""A simulator of ordering policies on nodes, in plain Python and exact fractions, to hold the compiled clock against.

`python tests/simulator/reference.py --runs 20000` draws small runs, with ties, unequal nodes and jobs as large as the
cluster, and counts those in which any start or end differs. It follows the rules as docs/simulator.md states them and
looks at every job at every event: no heap, no kinds of jobs, no early exit.
"""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from itertools import groupby

import numpy as np

from mfcp.simulator.beliefs import GivenDurations, TrueDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Instant, Ordering, Policy, View
from mfcp.simulator.simulation import import_policies, simulate

NEVER = Fraction(10**15)


class Job:
    """One job: what is true of it, and where it is."""

    def __init__(self, jobs, row, expected, speed):
        self.row, self.gpus = row, int(jobs.gpus[row])
        self.submit, self.overhead = Fraction(jobs.submit[row]), Fraction(jobs.overhead[row])
        self.left = self.duration = Fraction(jobs.duration[row])
        self.more = Fraction(expected[row]) - self.duration
        self.speeds = [Fraction(value) for value in speed[row]]
        self.executed = self.charge = Fraction(0)
        self.held, self.started, self.finished = {}, None, None
        self.forgiven, self.stopped = Fraction(0), None

    def pace(self, types):
        return min(self.speeds[types[node]] for node in self.held)

    def believed(self):
        return max(self.left + self.more, Fraction(0))


class Reference:
    """A run of an ordering policy under the semantics `plain`."""

    def __init__(self, jobs, cluster, policy, expected, speed):
        self.size, self.types = cluster.size.tolist(), cluster.type.tolist()
        self.jobs = [Job(jobs, row, expected, speed) for row in range(len(jobs.id))]
        self.policy, self.view = policy, View.of(jobs, cluster, expected)
        keys = policy.keys(self.view)
        self.value = [Fraction(value) if np.isfinite(value) else NEVER for value in keys.value.tolist()]
        self.weight = [Fraction(w) for w in np.broadcast_to(np.float64(keys.weight), len(self.jobs)).tolist()]
        self.limits = [Fraction(limit) for limit in keys.limits.tolist()]
        self.rank = list(range(len(self.limits) + 1)) if keys.rank is None else keys.rank.tolist()
        self.promote = None if np.isinf(keys.promote) else Fraction(keys.promote)
        self.ask = policy.watch(self.view) if policy.asks else None
        self.now, self.coming, self.active = Fraction(0), list(self.jobs), []

    def run(self):
        """Starts and ends of all jobs."""
        while self.coming or self.active:
            running = [job for job in self.active if job.held]
            times = [self.now + self.until_next(job) for job in running] + [job.submit for job in self.coming[:1]]
            times += [self.promoted_at(job) for job in self.to_promote()]
            passed = min(times) - self.now
            self.now += passed
            for job in running:
                job.executed += passed
                job.left -= max(passed - job.charge, Fraction(0)) * job.pace(self.types)
                job.charge = max(job.charge - passed, Fraction(0))
                if job.left == 0 and job.charge == 0:
                    job.finished, job.held = self.now, {}
                    self.active.remove(job)
            while self.coming and self.coming[0].submit <= self.now:
                self.active.append(self.coming.pop(0))
            for job in self.to_promote():
                if self.promoted_at(job) <= self.now:
                    job.forgiven = job.executed
            self.decide()
        return [[float(getattr(job, name)) for job in self.jobs] for name in ("started", "finished")]

    def level(self, job):
        return sum((job.executed - job.forgiven) * job.gpus >= limit for limit in self.limits)

    def to_promote(self):
        """Jobs that wait, and have run since they were promoted last."""
        waiting = [job for job in self.active if not job.held and job.executed > job.forgiven]
        return waiting if self.promote else []

    def promoted_at(self, job):
        return job.stopped + self.promote * (job.executed - job.forgiven)

    def until_next(self, job):
        """Seconds to the end of a running job, or to its next level."""
        end, level = job.charge + job.left / job.pace(self.types), self.level(job)
        return (
            end
            if level == len(self.limits)
            else min(end, self.limits[level] / job.gpus - (job.executed - job.forgiven))
        )

    def key(self, job):
        return self.rank[self.level(job)], self.value[job.row] + self.weight[job.row] * job.believed(), job.row

    def decide(self):
        if self.ask and self.active:
            rows = sorted(self.active, key=lambda job: job.row)
            left, executed = (np.array([float(f(job)) for job in rows]) for f in (Job.believed, lambda j: j.executed))
            given = self.ask(Instant(float(self.now), np.array([job.row for job in rows]), left, executed))
            for job, value in zip(rows, given, strict=True):
                self.value[job.row] = Fraction(value)
        order = sorted(self.active, key=self.key)
        if self.policy.preempts:
            self.choose(order)
        else:
            self.fill([job for job in order if not job.held])

    def free(self, held_by):
        return [size - sum(job.held.get(node, 0) for job in held_by) for node, size in enumerate(self.size)]

    def choose(self, order):
        """Every job in its turn; a running one stays where it is if it can."""
        settled, closed = [], False
        for turn, job in enumerate(order):
            ran = dict(job.held)
            open_ = self.free(settled)
            stays = bool(ran) and not closed and all(open_[node] >= count for node, count in ran.items())
            if not stays:
                job.held = {}
                if not closed:
                    unseen = [other for other in order[turn + 1 :] if other.held]
                    job.held = self.place(job, self.free(settled + unseen)) or self.place(job, open_)
                if job.held:
                    job.charge = Fraction(0) if job.started is None else job.overhead
                    job.started = self.now if job.started is None else job.started
                elif self.policy.skip == "nobody" and not ran:
                    closed = True
                if ran and not job.held:
                    job.stopped = self.now
            settled += [job] if job.held else []

    def fill(self, waiting):
        """Waiting jobs in their turn, beside those that run."""
        blocked, shadow, spare = False, NEVER, 0
        for job in waiting:
            free = self.free(self.active)
            early = self.now + job.believed() <= shadow
            allowed = not blocked or self.policy.skip == "any"
            allowed |= blocked and self.policy.skip == "backfill" and (early or job.gpus <= spare)
            job.held = self.place(job, free) if allowed else {}
            if job.held:
                job.charge = Fraction(0) if job.started is None else job.overhead
                job.started = self.now if job.started is None else job.started
                spare -= 0 if early else job.gpus
            elif not blocked:
                blocked = True
                shadow, spare = self.reserve(job, sum(free))

    def reserve(self, first, free):
        """When the first in line is believed to start, and what else is free then."""
        dues = sorted((self.now + job.believed() / job.pace(self.types), job.gpus) for job in self.active if job.held)
        for due, group in groupby(dues, key=lambda pair: pair[0]):
            free += sum(gpus for _, gpus in group)
            if free >= first.gpus:
                return due, free - first.gpus
        return NEVER, 0

    def place(self, job, free):
        """Node → accelerators: one node with room, else whole nodes of a type and the rest on another; {} if none."""
        for node, room in enumerate(free):
            if room >= job.gpus and job.speeds[self.types[node]] > 0:
                return {node: job.gpus}
        for kind, speed in enumerate(job.speeds):
            rest, given = job.gpus, {}
            nodes = [node for node in range(len(free)) if self.types[node] == kind and speed > 0]
            for node in nodes:
                if free[node] == self.size[node] <= rest:
                    given[node] = self.size[node]
                    rest -= self.size[node]
            last = [node for node in nodes if node not in given and free[node] >= rest > 0][:1]
            if rest == 0 or last:
                return given | dict.fromkeys(last, rest)
        return {}


def draw(seed):
    """Jobs, a cluster, what is believed, and speeds: small, whole and full of ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    sizes, kinds = rng.integers(1, 9, rng.integers(1, 5)), 1 + (rng.random() < 0.3)
    types = np.sort(rng.integers(0, kinds, len(sizes)))
    names = tuple("ab"[: types.max() + 1])
    cluster = Cluster(sizes, types, names)
    speed = rng.choice([1.0, 2.0, 0.5], (n, len(names))) if rng.random() < 0.5 else np.ones((n, len(names)))
    most = cluster.by_type.max()
    lengths = rng.choice([60, 120, 180, 300, 700], 3)
    submit = np.sort(60.0 * rng.integers(0, rng.choice([1, 5, 15]), n))
    gpus = np.where(rng.random(n) < 0.2, most, rng.integers(1, most + 1, n))
    duration = rng.choice(lengths, n).astype(float)
    overhead = rng.choice([0.0, 20.0], n) if rng.random() < 0.5 else np.zeros(n)
    jobs = Jobs.simple(
        submit, gpus, duration, overhead=overhead, deadline=submit + rng.choice([100.0, 400.0, 900.0], n),
        user=rng.choice(["ann", "bob", "cid"], n),
    )  # fmt: skip
    expected = duration if rng.random() < 0.5 else rng.choice(lengths, n).astype(float)
    return jobs, cluster, expected, speed


def policies():
    """Every ordering policy, with settings that make small runs interesting."""
    import_policies()
    settings = {"las": {"limits": (100.0, 500.0, 1000.0)}, "gittins": {"levels": 4}}
    names = sorted(name for name, member in Policy.members.items() if issubclass(member, Ordering))
    made = {name: Policy.build(name, **settings.get(name, {})) for name in names}
    made["las:promote"] = Policy.build("las", limits=(700.0, 2000.0), promote=0.25)
    made["las:rarely"] = Policy.build("las", limits=(700.0,), promote=1.5)
    skips = (("fifo", "any"), ("srsf", "nobody"), ("sjf", "nobody"))  # behind whom others come, and before whom
    return made | {f"{name}:{skip}": Policy.build(name, skip=skip) for name, skip in skips}


def difference(seed, policy):
    """Largest difference of a start or an end, in seconds."""
    jobs, cluster, expected, speed = draw(seed)
    belief = TrueDurations() if (expected == jobs.duration).all() else GivenDurations(seconds=tuple(expected))
    outcome = simulate(jobs, cluster, policy, belief=belief, speed=speed)
    wanted = Reference(jobs, cluster, policy, expected, speed).run()
    return float(np.abs(np.array([outcome.started, outcome.finished]) - wanted).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    options = parser.parse_args()
    made, different = list(policies().items()), []
    for seed in range(options.runs):
        name, policy = made[seed % len(made)]
        if not difference(seed, policy) <= 1e-6:
            different.append((seed, name))
    print(f"{options.runs} runs of {len(made)} policies: {len(different)} differ {different[:10]}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()

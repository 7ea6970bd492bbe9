"""The equations of Qore-DL (Hua et al., J. Systems Architecture 130, 2022), with arrays for jobs and hosts.

Its documents print Eq. 15 and say what the others are for. A mark tells what each form here rests on: *printed*;
*read*, from the authors' scripts, whose versions differ; *ours*, where only a property is known. Numbers are theirs
unless it says otherwise. Resources are accelerators, CPU and memory, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mfcp.arrays import Bools, Floats, Ints

COMPUTE, MEMORY = 0.7, 0.3
"""Weights of CPU or GPU, and of memory, in every weighted sum; printed."""
Thresholds = tuple[float, float, float]
THRESHOLDS: Thresholds = (0.35, 0.55, 0.70)
"""Of the cluster's load: light up to the first, grow freely up to the second, shrink from the third; printed."""
WORKERS, PER_SERVER, STEPS = (5, 4, 2), (2.0, 3.0, 4.0), (0.4, 0.7)
"""Most workers, and workers a parameter server, at loads below 0.4, below 0.7, and above; read."""
LOSSES = 30
CANDIDATES = 3
"""Jobs whose size one round of the adjuster looks at; read."""
_NEVER, _SOON_S, _OVERDUE = 1e-9, 1e-3, 1e15

Case = Literal["grow late", "grow late, shrink early", "grow", "shrink", "nothing"]


def weights(capacity: Floats) -> Floats:
    """(3,) of each resource in weighted sums, from what the cluster has of it (3,): 0 for none, infinite for unknown.

    What computes is the accelerators where there are some; then CPU only limits who fits where. Weights sum to 1: a
    resource that is not there or not known leaves its own to the other.
    """
    there = (capacity > 0) & np.isfinite(capacity)
    compute = np.array([COMPUTE, 0.0]) if there[0] else np.array([0.0, COMPUTE])
    own = np.append(compute, MEMORY) * there
    return np.asarray(own / max(own.sum(), _NEVER))


def share(need: Floats, capacity: Floats) -> Floats:
    """What needs (…, 3) are of a capacity that broadcasts to them; 0 of what is not there or not known."""
    there = (capacity > 0) & np.isfinite(capacity)
    return np.asarray(np.where(there, need, 0.0) / np.where(there, capacity, 1.0))


def host_load(used: Floats, weight: Floats) -> Floats:
    """Eq. 17, read: (L,) sum of the used parts (L, 3) of a host's resources, weighted by `weights` (3,)."""
    load: Floats = used @ weight
    return load


def placement_probability(load: Floats) -> Floats:
    """Eq. 16, ours: (L,) how likely each host is to take the next part of a job, from (L,) loads.

    Known is that probabilities are in (0, 1), sum to 1, and that the third of hosts that is least loaded has some 95 %.
    That is a half-normal density over ranks, whose deviation is a sixth of the hosts. Equal loads share theirs.
    """
    hosts = len(load)
    rank = np.arange(hosts) + 0.5
    weight = np.exp(-(rank**2) / (2 * (hosts / 6) ** 2))
    _, of, count = np.unique(load, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    total = np.concatenate([[0.0], np.cumsum(weight)])
    shared = (total[ends] - total[ends - count]) / count / weight.sum()
    probability: Floats = shared[of.ravel()]
    return probability


def cluster_load(load: Floats) -> float:
    """Eq. 1, printed in its roles: the load of hosts, as likely as they are to take what comes."""
    return float(placement_probability(load) @ load)


def worker_count(
    iterations: Floats, seconds: Floats, available: Floats, load: float, most: tuple[int, int, int] = WORKERS
) -> tuple[Ints, Ints]:
    """Eq. 5, read: (n,) workers, and (n,) parameter servers beside them.

    Args:
        iterations: (n,) to do by one worker.
        seconds: (n,) of an iteration.
        available: (n,) seconds until the deadline.
        load: of the cluster.
        most: workers at loads below 0.4, below 0.7, and above.
    """
    step = int(np.searchsorted(STEPS, load, side="right"))
    wanted = np.where(available > 0, iterations * seconds / np.maximum(available, _SOON_S), np.inf)
    workers = np.clip(np.ceil(wanted), 1, most[step]).astype(np.int64)
    return workers, np.ceil(workers / PER_SERVER[step]).astype(np.int64)


def requirement(workers: Ints, servers: Ints, by_worker: Floats, by_server: Floats, capacity: Floats) -> Floats:
    """Eqs. 6 and 7, read: (n,) weighted part of the cluster that each job needs.

    Args:
        workers, servers: (n,) how many.
        by_worker, by_server: (n, 3) peak needs of one.
        capacity: (3,) of the cluster.
    """
    weight = weights(capacity)
    one_worker, one_server = share(by_worker, capacity) @ weight, share(by_server, capacity) @ weight
    result: Floats = workers * one_worker + servers * one_server
    return result


def available_time(deadline: Floats, submit: Floats, now: float) -> Floats:
    """Eq. 9, read: (n,) seconds left of relative deadlines (n,); negative for overdue jobs."""
    left: Floats = deadline - (now - submit)
    return left


def priority(need: Floats, available: Floats, load: float, thresholds: Thresholds = THRESHOLDS) -> Floats:
    """Eq. 8, its principle printed, quotient and product read: (n,), the largest first; overdue jobs before all others.

    Urgent jobs come first; of equal ones large ones under light load, small ones otherwise. The most overdue comes
    before the others.
    """
    of_need = need if load <= thresholds[0] else 1.0 / np.maximum(need, _NEVER)
    result: Floats = np.where(available > 0, of_need / np.maximum(available, _SOON_S), _OVERDUE - available)
    return result


def decline_rate(losses: Floats) -> float:
    """Eq. 10, read: mean relative change between the last 30 losses, over their largest; infinite below two losses."""
    last = np.asarray(losses, float)[-LOSSES:]
    if len(last) < 2:
        return np.inf
    last = last / max(float(np.abs(last).max()), _NEVER)
    return float(np.mean(np.abs(np.diff(last)) / np.maximum(np.abs(last[:-1]), _NEVER)))


def execution_time(remaining: Floats, seconds: Floats) -> Floats:
    """Eq. 11, read: (n,) seconds that the remaining iterations take."""
    result: Floats = remaining * seconds
    return result


def timeout_degree(execution: Floats, available: Floats) -> Floats:
    """Eq. 12, its sign printed, the difference read, its scale ours: (n,) above 0 for jobs that will be late.

    A job without a deadline, whose available time is infinite, has -1: the limit of ever later deadlines.
    """
    some = np.where(np.isfinite(available), available, 0.0)
    return np.where(np.isfinite(available), (execution - some) / np.maximum(some, 1.0), -1.0)


@dataclass(frozen=True)
class RunningJobs:
    """n jobs as the adjuster sees them.

    Attributes:
        seconds: (n,) of an iteration.
        total, done, remaining: (n,) iterations of a worker: in all, so far, and still necessary.
        workers: (n,) how many.
        need: (n,) weighted part of the cluster, `requirement`.
    """

    seconds: Floats
    total: Floats
    done: Floats
    remaining: Floats
    workers: Ints
    need: Floats


def sensitivity(jobs: RunningJobs, changed: Floats, *, grows: bool) -> Floats:
    """Eq. 13, the rule printed, its forms read: (n,) seconds that a step of resources changes, over a job's need.

    Vertically every worker has more, or less; horizontally there is a worker more, or less. Growing, the better of the
    two counts; shrinking, the one that costs less. A last worker cannot go.

    Args:
        jobs: as they run.
        changed: (n,) seconds of an iteration after a vertical step.
        grows: whether resources are added, else taken.
    """
    sign, workers = (1.0, jobs.workers + 1) if grows else (-1.0, np.maximum(jobs.workers - 1, 1))
    need, left = np.maximum(jobs.need, _NEVER), np.maximum(jobs.remaining, _NEVER)
    vertical = sign * (jobs.seconds - changed) / need
    after = np.maximum(jobs.total * jobs.workers / workers - jobs.done, 0.0)
    horizontal = sign * jobs.seconds * (1 - after / left) / need
    if grows:
        return np.asarray(np.maximum(vertical, horizontal))
    return np.where(jobs.workers > 1, np.minimum(np.abs(vertical), np.abs(horizontal)), np.abs(vertical))


def case(timeout: Floats, load: float, thresholds: Thresholds = THRESHOLDS) -> Case:
    """Which of the four cases holds, printed: by whether any running job will be late, and by the load."""
    light, middle, heavy = thresholds
    if (timeout > 0).any():
        return "grow late" if load <= middle else "grow late, shrink early"
    return "grow" if load <= light else "shrink" if load > heavy else "nothing"


def candidates(timeout: Floats, sensitive: Floats, which: Case) -> tuple[Ints, Ints]:
    """Rows of the jobs that may grow and of those that may shrink, printed: at most three each.

    Late jobs of highest sensitivity grow; of the others those of highest grow and those of lowest shrink.
    """
    late = timeout > 0

    def first(mask: Bools, by: Floats) -> Ints:
        rows = np.flatnonzero(mask)
        return rows[np.argsort(by[rows], kind="stable")][:CANDIDATES]

    grows = late if late.any() else np.full(len(late), which == "grow")
    shrinks = ~late & (which in ("grow late, shrink early", "shrink"))
    return first(grows, -sensitive), first(shrinks, sensitive)


def fitness(which: Case, timeout: Floats, saved: Floats, sensitive: Floats) -> Floats:
    """Eq. 15, printed: (n,) what a change of size is worth, more is better.

    Args:
        which: the case.
        timeout: (n,) of the jobs.
        saved: (n,) seconds of execution that the change saves.
        sensitive: (n,) sensitivity at the changed size.
    """
    inverse = 1.0 / np.maximum(sensitive, _NEVER)
    if which == "grow late":
        result = saved
    elif which == "grow late, shrink early":
        result = np.where(timeout > 0, saved, inverse)
    else:
        result = sensitive if which == "grow" else inverse
    return np.asarray(result, float)

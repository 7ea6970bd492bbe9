"""The clock of events as a plain Python loop: what `mfcp.simulator` is held against, in results and in speed.

Everything is computed anew at every event. One pool of accelerators, no failures; the semantics `plain`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, View


@dataclass
class _Job:
    number: int
    left: float
    executed: float = 0.0
    charge: float = 0.0
    runs: bool = False
    seen: bool = False


def plain_simulate(jobs: Jobs, accelerators: int, policy: Ordering, expected: Floats) -> Floats:
    """(n,) seconds at which jobs end.

    Args:
        jobs: without failures.
        accelerators: of the pool.
        policy: one that does not ask.
        expected: (n,) seconds that jobs are believed to take.
    """
    keys = policy.keys(View.of(jobs, Cluster.parse(str(accelerators)), expected))
    weight = np.broadcast_to(np.float64(keys.weight), len(jobs.id))
    rank = np.arange(len(keys.limits) + 1.0) if keys.rank is None else keys.rank
    active, finished, arrived, now = list[_Job](), np.full(len(jobs.id), np.nan), 0, 0.0

    def level(job: _Job) -> int:
        return int(np.sum(job.executed * jobs.gpus[job.number] * (1 + 1e-12) >= keys.limits))

    def believed(job: _Job) -> float:
        return max(job.left + expected[job.number] - jobs.duration[job.number], 0.0)

    def key(job: _Job) -> tuple[float, float, int]:
        j = job.number
        return rank[level(job)], keys.value[j] + weight[j] * believed(job), j

    def next_happening(job: _Job) -> float:
        end, reached = job.charge + job.left, level(job)
        if reached == len(keys.limits):
            return end
        return min(end, float(keys.limits[reached]) / jobs.gpus[job.number] - job.executed)

    while arrived < len(jobs.id) or active:
        times = [now + next_happening(job) for job in active if job.runs]
        then = min([*times, *jobs.submit[arrived : arrived + 1]])
        for job in active:
            if job.runs:
                passed = then - now
                job.executed += passed
                job.left -= max(passed - job.charge, 0.0)
                job.charge = max(job.charge - passed, 0.0)
        now = then
        for job in [job for job in active if job.runs and job.left <= 1e-9 * jobs.duration[job.number]]:
            finished[job.number] = now
            active.remove(job)
        while arrived < len(jobs.id) and jobs.submit[arrived] <= now:
            active.append(_Job(arrived, float(jobs.duration[arrived])))
            arrived += 1
        active.sort(key=key)
        free = accelerators if policy.preempts else accelerators - sum(jobs.gpus[j.number] for j in active if j.runs)
        blocked, shadow, spare = False, np.inf, 0
        for job in active:
            j, need = job.number, jobs.gpus[job.number]
            if job.runs and not policy.preempts:
                continue
            early = now + believed(job) <= shadow
            fits = need <= free and (
                not blocked or policy.skip == "any" or (policy.skip == "backfill" and (early or need <= spare))
            )
            if fits:
                free -= need
                spare -= 0 if early or not blocked else need
                if not job.runs:
                    job.charge = float(jobs.overhead[j]) if job.seen else 0.0
                    job.seen = True
            elif not blocked:
                blocked = True
                ends = [(now + believed(o), jobs.gpus[o.number]) for o in active if o.runs]
                for end in sorted(end for end, _ in ends):
                    there = free + sum(gpus for other, gpus in ends if other <= end)
                    if there >= need:
                        shadow, spare = end, there - need
                        break
            job.runs = bool(fits)
    return finished

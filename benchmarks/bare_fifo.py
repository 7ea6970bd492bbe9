"""First in, first out with nothing around it: what a compiled loop takes at the least for the ends of jobs alone.

One pool, no failures, no log, no overheads: a heap of the ends of running jobs and the accelerators they give back.
"""

from __future__ import annotations

import numba
import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.jobs import Jobs


def bare_fifo(jobs: Jobs, accelerators: int) -> Floats:
    """(n,) seconds at which jobs end, those submitted in this order."""
    ends = np.empty(len(jobs.id))
    _run(jobs.submit, jobs.gpus, jobs.duration, accelerators, ends)
    return ends


@numba.njit(error_model="numpy")
def _run(submit, gpus, duration, free, ends):  # type: ignore[no-untyped-def]
    times, gives, running, now = np.empty(len(submit)), np.empty(len(submit), np.int64), 0, 0.0
    for job in range(len(submit)):
        now = max(now, submit[job])
        while free < gpus[job] or (running > 0 and times[0] <= now):
            now = max(now, times[0])
            free += gives[0]
            running -= 1
            place, time, give = 0, times[running], gives[running]
            while 2 * place + 1 < running:
                child = 2 * place + 1
                if child + 1 < running:  # then without a branch, as ours
                    child += int(times[child + 1] < times[child])
                if times[child] >= time:
                    break
                times[place], gives[place] = times[child], gives[child]
                place = child
            times[place], gives[place] = time, give
        free -= gpus[job]
        ends[job] = now + duration[job]
        place = running
        running += 1
        while place > 0 and times[(place - 1) // 2] > ends[job]:
            times[place], gives[place] = times[(place - 1) // 2], gives[(place - 1) // 2]
            place = (place - 1) // 2
        times[place], gives[place] = ends[job], gpus[job]

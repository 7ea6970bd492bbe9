"""The indexed heap against a sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mfcp.simulator.clocks.heap import put, take
from mfcp.simulator.clocks.state import HEAPED, NONE, Work, fresh_state


def state(n):
    nothing = np.empty((n, 0))
    return fresh_state(Work(*(np.zeros(n) for _ in range(4)), nothing, nothing, np.zeros(n)), 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20), st.booleans()), max_size=60))
def test_the_first_is_always_the_least_and_every_job_knows_its_place(steps):
    now, held = state(10), {}
    for job, time, leaves in steps:
        if leaves:
            take(now, job)
            held.pop(job, None)
        else:
            now.next_at[job] = time
            put(now, job)
            held[job] = time
        size = now.counts[HEAPED]
        assert sorted(now.heap[:size]) == sorted(held)
        assert [now.place[job] for job in now.heap[:size]] == list(range(size))
        assert all(now.place[job] == NONE for job in range(10) if job not in held)
        if held:
            assert now.next_at[now.heap[0]] == min(held.values())

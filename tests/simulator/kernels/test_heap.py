"""The indexed heap against a sorted list."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import from_python

from mfcp.simulator.kernels import heap
from mfcp.simulator.kernels.books import BY_TIME, HEAPED, KEY, NONE, PLACE, RANK, ClockTerms, fresh_books, fresh_jobs

put, take = map(from_python, (heap.put, heap.take))


def fresh(n, preempts):
    jobs = fresh_jobs(*np.zeros((3, n)), np.ones(n, int), np.zeros(n), np.arange(n) % 4 - 1.0, np.zeros(n))
    jobs["key"], jobs["level"] = np.arange(n), np.arange(n) % 3
    return fresh_books(jobs, np.ones(1, int), np.zeros(1, int), np.ones((n, 1)), np.empty((n, 0)), 1, preempts=preempts)


TERMS = ClockTerms(**dict.fromkeys(ClockTerms._fields, False) | {"rank": np.array([0.0, 2.0, 1.0])})


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20), st.booleans()), max_size=60), st.booleans())
def test_the_first_is_always_the_least_and_every_job_knows_its_place(steps, preempts):
    books, held = fresh(10, preempts), {}
    for job, time, leaves in steps:
        if leaves:
            take(books, job)
            held.pop(job, None)
        else:
            put(books, TERMS, job, float(time))
            held[job] = time
        running = books.lists[BY_TIME, : books.counts[HEAPED]]
        assert sorted(running) == sorted(held)
        assert books.lists[PLACE][running].tolist() == list(range(len(running)))
        assert all(books.lists[PLACE, job] == NONE for job in range(10) if job not in held)
        if held:
            assert books.times[: len(running)].tolist() == [held[job] for job in running]
            assert books.times[0] == min(held.values())
        if held and preempts:
            bounds = books.bounds[:, : len(running)]
            assert bounds[RANK].tolist() == TERMS.rank[running % 3].tolist()
            assert bounds[KEY].tolist() == [np.inf if job % 4 == 0 else job for job in running]

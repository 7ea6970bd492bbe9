"""The indexed heap against a sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kernel_calls import from_python

from mfcp.simulator.kernels import heap
from mfcp.simulator.kernels.books import BY_TIME, HEAPED, KEY, NONE, PLACE, RANK, ClockTerms, fresh_books, fresh_jobs

put, take, take_first, running, soonest = map(
    from_python, (heap.put, heap.take, heap.take_first, heap.running, heap.soonest)
)


def fresh(n, preempts):
    jobs = fresh_jobs(*np.zeros((3, n)), np.ones(n, int), np.zeros(n), np.arange(n) % 4 - 1.0, np.zeros(n))
    jobs["key"], jobs["level"] = np.arange(n), np.arange(n) % 3
    return fresh_books(jobs, np.ones(1, int), np.zeros(1, int), np.ones((n, 1)), np.empty((n, 0)), 1, preempts=preempts)


TERMS = ClockTerms(**dict.fromkeys(ClockTerms._fields, False) | {"rank": np.array([0.0, 2.0, 1.0])})


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20), st.integers(0, 3), st.booleans()), max_size=60),
    st.booleans(),
)
def test_the_first_is_always_the_least_and_every_job_knows_its_place(steps, preempts):
    books, held = fresh(10, preempts), {}
    for job, time, what, looks in steps:
        if what == 0:
            take(books, job)
            held.pop(job, None)
        elif what == 1 and held:
            least = min(held.values())
            assert held.pop(take_first(books)) == least
        else:
            put(books, TERMS, job, float(time))
            held[job] = time
        assert soonest(books) == min(held.values(), default=np.inf)
        assert all(books.lists[PLACE, job] == NONE for job in range(10) if job not in held)
        if not looks:
            continue  # or the place of a first that was taken would never be empty when the next step comes
        assert running(books) == books.counts[HEAPED] == len(held)
        listed = books.lists[BY_TIME, : len(held)]
        assert sorted(listed) == sorted(held)
        assert books.lists[PLACE][listed].tolist() == list(range(len(held)))
        assert books.times[: len(held)].tolist() == [held[job] for job in listed]
        if preempts:
            bounds = books.bounds[:, : len(held)]
            assert bounds[RANK].tolist() == TERMS.rank[listed % 3].tolist()
            assert bounds[KEY].tolist() == [np.inf if job % 4 == 0 else job for job in listed]

"""Who fits on which nodes, and that nothing is given twice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kernel_calls import from_python

from mfcp.simulator.kernels import allocation
from mfcp.simulator.kernels.allocation import FREE, NO_ROOM, OPEN
from mfcp.simulator.kernels.books import BEST, FASTEST, FIRST, NONE, fresh_books, fresh_jobs

fit, open_up, release, total = (
    from_python(getattr(allocation, name)) for name in ("fit", "open_up", "release", "total")
)


def made(sizes, gpus, types=None, speed=None):
    n = len(gpus)
    kinds = np.zeros(len(sizes), np.int64) if types is None else np.array(types)
    speeds = np.ones((n, kinds.max() + 1)) if speed is None else np.array(speed, float)
    jobs = fresh_jobs(*np.zeros((3, n)), np.array(gpus), *np.zeros((3, n)))
    return fresh_books(jobs, np.array(sizes), kinds, speeds, np.empty((n, 0)), 1)


def held(books, job):
    cell, found = books.jobs[job]["cell"], {}
    while cell != NONE:
        found[int(books.cells[cell, 0])] = int(books.cells[cell, 1])
        cell = books.cells[cell, 2]
    return found


def test_first_and_best_fit():
    for how, node in ((FIRST, 0), (BEST, 1)):
        books = made([8, 4], [3])
        assert fit(books, 0, how, False) == FREE
        assert held(books, 0) == {node: 3}


def test_the_fastest_type_and_none_where_it_does_not_run():
    books = made([4, 4], [2, 2], types=[0, 1], speed=[[1, 2], [1, 0]])
    assert fit(books, 0, FASTEST, False)
    assert fit(books, 1, FASTEST, False)
    assert (held(books, 0), held(books, 1)) == ({1: 2}, {0: 2})


def test_large_jobs_take_whole_nodes_and_the_rest_of_one_more():
    books = made([8, 8, 8], [6, 20])
    assert fit(books, 0, FIRST, False)
    assert fit(books, 1, FIRST, False) == NO_ROOM  # two whole nodes and two more accelerators
    release(books, 0)
    assert fit(books, 1, FIRST, False)
    assert held(books, 1) == {0: 8, 1: 8, 2: 4}
    assert total(books) == 4


def test_what_is_open_is_taken_only_where_what_is_free_is_not_enough():
    books = made([4, 4], [3, 2, 3])
    assert fit(books, 0, FIRST, False) == FREE
    books.nodes["open"] = books.nodes["free"]
    assert open_up(books, 0, 1)
    assert fit(books, 1, FIRST, True) == FREE
    assert held(books, 1) == {1: 2}
    assert fit(books, 2, FIRST, True) == OPEN
    assert books.nodes["free"].tolist() == [-2, 2]  # the first job has to give way
    assert not open_up(books, 0, -1)
    open_up(books, 0, 1)
    release(books, 0)
    assert held(books, 0) == {}
    assert books.nodes["free"].tolist() == books.nodes["open"].tolist() == [1, 2]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from([FIRST, BEST, FASTEST])), max_size=12),
    st.data(),
)
def test_what_is_held_and_what_is_free_add_up(sizes, wants, data):
    books = made(sizes, [want for want, _ in wants] or [1])
    inside = set()
    for job, (want, how) in enumerate(wants):
        before = books.nodes["free"].copy()
        if fit(books, job, how, False):
            inside.add(job)
            assert sum(held(books, job).values()) == want
        else:
            assert (books.nodes["free"] == before).all()
        if inside and data.draw(st.booleans()):
            release(books, gone := data.draw(st.sampled_from(sorted(inside))))
            inside.remove(gone)
        used = np.zeros(len(sizes), int)
        for each in inside:
            for node, count in held(books, each).items():
                used[node] += count
        assert (used + books.nodes["free"] == books.nodes["size"]).all()

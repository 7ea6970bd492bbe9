"""Who fits on which nodes, and that nothing is given twice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mfcp.simulator.clocks.allocation import fit, forget, keep, release, total
from mfcp.simulator.clocks.state import BEST, FASTEST, FIRST, NONE, Nodes, Work, fresh_state


def made(sizes, gpus, types=None, speed=None):
    n = len(gpus)
    kinds = np.zeros(len(sizes), np.int64) if types is None else np.array(types)
    speeds = np.ones((n, kinds.max() + 1)) if speed is None else np.array(speed, float)
    work = Work(np.zeros(n), np.array(gpus), np.ones(n), np.ones(n), speeds, np.empty((n, 0)), np.zeros(n))
    return work, Nodes(np.array(sizes), kinds, np.array(sizes)), fresh_state(work, sum(sizes))


def held(state, job):
    cell, found = state.cell[job], {}
    while cell != NONE:
        found[int(state.cells[cell, 0])] = int(state.cells[cell, 1])
        cell = state.cells[cell, 2]
    return found


def test_first_and_best_fit():
    for how, node in ((FIRST, 0), (BEST, 1)):
        work, nodes, state = made([8, 4], [3])
        assert fit(work, nodes, state, 0, how)
        assert held(state, 0) == {node: 3}


def test_the_fastest_type_and_none_where_it_does_not_run():
    work, nodes, state = made([4, 4], [2, 2], types=[0, 1], speed=[[1, 2], [1, 0]])
    assert fit(work, nodes, state, 0, FASTEST)
    assert fit(work, nodes, state, 1, FASTEST)
    assert (held(state, 0), held(state, 1)) == ({1: 2}, {0: 2})


def test_large_jobs_take_whole_nodes_and_the_rest_of_one_more():
    work, nodes, state = made([8, 8, 8], [6, 20])
    assert fit(work, nodes, state, 0, FIRST)
    assert not fit(work, nodes, state, 1, FIRST)  # two whole nodes and two more accelerators
    release(nodes, state, 0)
    assert fit(work, nodes, state, 1, FIRST)
    assert held(state, 1) == {0: 8, 1: 8, 2: 4}
    assert total(nodes) == 4


def test_a_job_stays_only_where_its_own_nodes_are_free():
    work, nodes, state = made([4], [3, 2])
    fit(work, nodes, state, 0, FIRST)
    nodes.free[:] = nodes.size
    assert keep(nodes, state, 0)
    assert nodes.free.tolist() == [1]
    assert not keep(nodes, state, 0)
    forget(state, 0)
    assert not keep(nodes, state, 0)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from([FIRST, BEST, FASTEST])), max_size=12),
    st.data(),
)
def test_what_is_held_and_what_is_free_add_up(sizes, wants, data):
    work, nodes, state = made(sizes, [want for want, _ in wants] or [1])
    inside = set()
    for job, (want, how) in enumerate(wants):
        before = nodes.free.copy()
        if fit(work, nodes, state, job, how):
            inside.add(job)
            assert sum(held(state, job).values()) == want
        else:
            assert (nodes.free == before).all()
        if inside and data.draw(st.booleans()):
            release(nodes, state, gone := data.draw(st.sampled_from(sorted(inside))))
            inside.remove(gone)
        used = np.zeros(len(sizes), int)
        for each in inside:
            for node, count in held(state, each).items():
                used[node] += count
        assert (used + nodes.free == nodes.size).all()

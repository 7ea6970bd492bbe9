"""Where parts of jobs go."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.qore.hosts import Hosts

ONE = np.array([0.0, 1.0, 1.0])


def hosts(*sizes):
    return Hosts(np.array([[0.0, float(size), float(size)] for size in sizes]))


def test_parts_take_the_least_loaded_hosts_and_servers_come_first():
    cluster = hosts(4, 4)
    cluster.used[0] = ONE
    servers, workers = cluster.place(1, 3, ONE, ONE, "least loaded")
    assert (servers.tolist(), workers.tolist()) == ([1], [0, 1, 0])  # equal loads: the first


def test_the_first_host_with_room_or_that_of_the_part_before():
    assert hosts(2, 4).place(0, 3, ONE, ONE, "first")[1].tolist() == [0, 0, 1]
    assert hosts(2, 4).place(0, 4, ONE, ONE, "together")[1].tolist() == [0, 0, 1, 1]
    assert hosts(2, 4).place(0, 4, ONE, ONE, "least loaded")[1].tolist() == [0, 1, 1, 0]


def test_as_many_parts_as_fit_and_one_of_each_at_least():
    servers, workers = hosts(2).place(2, 3, ONE, ONE, "first")
    assert (len(servers), len(workers)) == (1, 1)
    small = hosts(1)
    assert [len(each) for each in small.place(1, 1, ONE, ONE, "first")] == [0, 0]
    assert (small.used == 0).all()


def test_parts_grow_where_they_are_or_not_at_all():
    cluster = hosts(4, 4)
    _, workers = cluster.place(0, 3, ONE, ONE, "first")
    assert not cluster.resize(workers, ONE, 1.5 * ONE)
    assert cluster.used.tolist() == [[0, 3, 3], [0, 0, 0]]
    assert cluster.resize(workers, ONE, 1.25 * ONE)
    assert cluster.used[0, 1] == 3.75


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000), spread=st.sampled_from(["least loaded", "first", "together"]))
def test_capacity_holds_and_nothing_is_left_behind(seed, spread):
    rng = np.random.default_rng(seed)
    cluster = Hosts(rng.uniform(2, 10, (rng.integers(1, 6), 3)) * np.where(rng.random(3) < 0.3, np.inf, 1.0))
    placed = []
    for _ in range(8):
        counts, needs = (int(rng.integers(0, 3)), int(rng.integers(1, 5))), rng.uniform(0.3, 3, (2, 3))
        room = cluster.room(needs)
        assert room.tolist() == [cluster.host_for(need, spread) >= 0 for need in needs]
        on = cluster.place(*counts, *needs, spread)
        assert (cluster.used <= cluster.capacity * (1 + 1e-9)).all()
        assert len(on[0]) <= counts[0]
        assert len(on[1]) <= counts[1]
        assert (len(on[1]) > 0) >= (len(on[0]) > 0)
        assert not counts[0] or (len(on[0]) > 0) == (len(on[1]) > 0)
        placed.append((on, needs))
        taken = sum(len(rows) * needs[i] for on, needs in placed for i, rows in enumerate(on))
        assert np.allclose(cluster.used.sum(axis=0), taken)
    for on, needs in placed:
        cluster.free(on[0], needs[0])
        cluster.free(on[1], needs[1])
    assert np.allclose(cluster.used, 0)

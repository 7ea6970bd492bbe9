"""Shares of small cases, by hand or against another solver."""

import numpy as np

from mfcp.simulator.policies.base import Policy


def test_a_free_place_goes_to_the_next_and_is_kept(moment):
    policy = Policy.build("in_turn")
    first = policy.solve(moment(np.ones((3, 2)), [1, 1]))
    assert first.tolist() == [[1, 0], [0, 1], [0, 0]]
    later = policy.solve(moment(np.ones((2, 2)), [1, 1], before=first[1:], freed=(0,)))
    assert later.tolist() == [[0, 1], [1, 0]]


def test_the_fastest_type_with_room_and_nobody_passes(moment):
    policy = Policy.build("in_turn_fastest")
    assert policy.solve(moment([[1.0, 2.0], [1.0, 9.0]], [1, 1])).tolist() == [[0, 1], [1, 0]]
    wide = moment(np.ones((3, 1)), [3], gpus=np.array([2, 2, 1]))
    assert policy.solve(wide).ravel().tolist() == [1, 0, 0]


def packed(moment, together, count, **changes):
    """`together` of pairs that are named, and .1 of others; one type of one or two accelerators."""
    pair = np.array([(i, j) for j in range(count) for i in range(j)], np.int64)
    speed = np.array([together.get(tuple(each), (0.1, 0.1)) for each in pair.tolist()])[:, None, :]
    now = moment(np.ones((count, 1)), pair=pair, together=speed, **changes)
    share = Policy.build("in_turn_packed").solve(now)
    return [(i,) for i in np.flatnonzero(share[:count, 0])] + [
        tuple(each) for each in pair[share[count:, 0] > 0].tolist()
    ]


def test_who_finds_no_room_shares_with_the_best_partner(moment):
    gains = {(0, 2): (0.8, 0.8), (1, 2): (0.9, 0.8), (0, 3): (0.9, 0.9), (1, 3): (1.0, 1.0)}
    assert packed(moment, gains, 4, size=[2]) == [(1, 2), (0, 3)]
    assert packed(moment, {(0, 2): (0.8, 0.8)}, 4, size=[2]) == [(1,), (0, 2)]


def test_nobody_passes_one_that_finds_no_partner(moment):
    assert packed(moment, {(0, 2): (0.9, 0.9)}, 3, size=[1]) == [(0,)]
    assert packed(moment, {(0, 1): (0.75, 0.75)}, 2, size=[1]) == [(0,)]  # 1.5 are not more than 1.5


def test_packing_without_pairs_is_the_same_as_without(moment):
    now = moment([[1.0, 2.0], [1.0, 9.0], [1.0, 1.0]], [1, 1])
    assert Policy.build("in_turn_packed").solve(now).tolist() == Policy.build("in_turn_fastest").solve(now).tolist()

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

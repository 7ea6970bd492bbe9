"""Shares of small cases, by hand or against another solver."""

import numpy as np

from mfcp.simulator.policies.base import Policy


def test_everybody_has_the_same_part_and_at_most_one_in_all(moment):
    many = moment(np.ones((8, 2)), [2, 1])
    assert np.allclose(Policy.build("isolated").solve(many), [[2 / 8, 1 / 8]] * 8)
    few = Policy.build("isolated").solve(moment(np.ones((2, 2)), [6, 2]))
    assert np.allclose(few, [[0.75, 0.25]] * 2)

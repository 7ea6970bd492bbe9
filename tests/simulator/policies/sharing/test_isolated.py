"""Shares of small cases, by hand or against another solver."""

import numpy as np

from mfcp.simulator.policies.base import Policy


def test_everybody_has_the_same_part_and_at_most_one_in_all(moment):
    many = moment(np.ones((8, 2)), [2, 1])
    assert np.allclose(Policy.build("isolated").solve(many), [[2 / 8, 1 / 8]] * 8)
    few = Policy.build("isolated").solve(moment(np.ones((2, 2)), [6, 2]))
    assert np.allclose(few, [[0.75, 0.25]] * 2)


def test_even_time_does_not_ask_how_many_accelerators_a_job_holds(moment):
    """Two accelerators and four jobs, one of which holds both: half of the time each, and a split by accelerators."""
    now = moment(np.ones((4, 1)), [2], gpus=np.array([2, 1, 1, 1]))
    assert Policy.build("even_time").solve(now).ravel().tolist() == [0.5] * 4
    assert Policy.build("isolated").solve(now).ravel().tolist() == [0.25, 0.5, 0.5, 0.5]
    assert Policy.build("even_time").solve(moment(np.ones((2, 1)), [6])).ravel().tolist() == [1, 1]

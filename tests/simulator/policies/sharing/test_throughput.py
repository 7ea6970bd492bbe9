"""Shares of small cases, by hand or against another solver."""

import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy


def test_types_go_to_those_who_gain_most(moment):
    now = moment([[1.0, 8.0], [1.0, 2.0]], [1, 1])
    share = Policy.build("most_throughput").solve(now)
    assert np.allclose(share, [[0, 1], [1, 0]], atol=1e-6)


def test_plain_throughput_goes_to_who_makes_many_steps(moment):
    """Over an equal split both are alike, and the job of one accelerator is worth more for each."""
    now = moment([[8.0], [1.0]], [2], gpus=np.array([2, 1]))
    plain = Policy.build("most_throughput", plain=True).solve(now)
    assert np.allclose(plain.ravel(), [1, 0], atol=1e-6)


def test_the_least_makespan_gives_more_to_who_has_more_left(moment):
    now = moment([[1.0], [1.0]], [1], left=np.array([10.0, 30.0]))
    share = Policy.build("least_makespan").solve(now)
    assert share.ravel() == pytest.approx([0.25, 0.75], abs=1e-5)

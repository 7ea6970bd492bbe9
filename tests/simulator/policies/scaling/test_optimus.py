"""Marginal gains."""

from mfcp.simulator.policies.base import Policy


def test_everybody_first_then_the_largest_reduction(demand):
    seen = demand([[1.0, 1.9, 3.5], [1.0, 1.1, 1.2]], [5])
    assert Policy.build("optimus").decide(seen).chosen.tolist() == [2, 0]


def test_a_longer_job_grows_before_a_shorter_one(demand):
    seen = demand([[1.0, 2.0]] * 2, [3], left=[100.0, 10.0])
    assert Policy.build("optimus").decide(seen).chosen.tolist() == [1, 0]

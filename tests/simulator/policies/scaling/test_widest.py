"""Earliest deadline first, as wide as is of use."""

from mfcp.simulator.policies.base import Policy


def test_the_first_takes_its_fastest_way_and_the_next_what_is_left(demand):
    seen = demand([[1.0, 2.0, 1.5], [1.0, 2.0, 3.0]], [4], deadline=[10.0, 20.0])
    assert Policy.build("edf_widest").decide(seen).chosen.tolist() == [1, 1]
    assert Policy.build("edf_widest", by="size").decide(seen).chosen.tolist() == [2, -1]

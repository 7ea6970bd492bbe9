"""Subjects of profiling: spread over families, in the same order each time."""

import pytest

from mfcp.profiling.subjects import in_turns, subjects

pytestmark = pytest.mark.xdist_group("profile")  # one worker makes what they share


def test_orders_are_spread_over_families_and_always_the_same():
    turns = in_turns(subjects([], []))
    assert len(turns[0]) == len({subject.family for subject in turns[0]}) == 21
    assert sum(map(len, turns)) == 128
    assert all(len({subject.family for subject in turn}) == len(turn) for turn in turns)
    assert turns == in_turns(subjects([], [])[::-1])
    resnets = [subject.graph_id for turn in turns for subject in turn if subject.family == "resnet"]
    assert resnets[0] == "resnet-18@32"
    assert resnets[-1] == "resnet-101@224"

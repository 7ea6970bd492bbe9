"""Accelerators of nodes that groups of jobs take."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.policies.colocating import FreeNodes

SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=6)


@settings(max_examples=200)
@given(sizes=SIZES, asked=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_what_is_taken_was_free_and_is_as_together_as_can_be(sizes, asked):
    node = np.repeat(np.arange(len(sizes)), sizes)
    free, left = FreeNodes(node), set(range(len(node)))
    for gpus in asked:
        room = np.bincount(node[sorted(left)], minlength=len(sizes)) if left else np.zeros(len(sizes), int)
        taken = free.take(gpus)
        if not taken:
            assert room.max() < gpus
            continue
        assert len(set(taken)) == gpus
        assert set(taken) <= left
        parts = np.bincount(node[taken], minlength=len(sizes))
        if gpus <= max(sizes):
            assert (parts > 0).sum() == 1
            assert parts.argmax() == (room >= gpus).argmax()  # the first with room
        else:
            assert ((parts > 0) & (parts < np.array(sizes))).sum() <= 1  # whole nodes, but for one
        left -= set(taken)
        assert free.left == len(left)


@settings(max_examples=100)
@given(sizes=SIZES, part=st.floats(0, 1))
def test_an_empty_cluster_has_room_for_any_job(sizes, part):
    node = np.repeat(np.arange(len(sizes)), sizes)
    gpus = max(1, round(part * len(node)))
    assert len(FreeNodes(node).take(gpus)) == gpus


def test_accelerators_by_name_are_taken_together_or_not_at_all():
    free = FreeNodes(np.array([0, 0, 1, 1]))
    assert free.take_those([1, 2])
    assert not free.take_those([0, 1])
    assert free.take(1) == [0]
    assert free.take(2) == pytest.approx([])
    assert free.left == 1

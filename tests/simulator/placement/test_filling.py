"""Placing tasks that only arrive: what every placement keeps, and what each is for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.registry import import_members
from mfcp.simulator.placement.filling import fill
from mfcp.simulator.placement.machines import Placement

import_members("mfcp.simulator.placement")


SHAPES = [(1, 1, 0, 0), (1, 2, 1, 300), (2, 1, 1, 700), (1, 1, 1, 1000), (4, 4, 2, 1000)]


@pytest.mark.parametrize("name", sorted(Placement.members))
@given(kinds=st.lists(st.integers(0, 4), max_size=30), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_nothing_is_given_twice_and_whatever_fits_is_placed(requests, machines, name, kinds, seed):
    asked = requests(SHAPES)
    full = machines([(4, 4, 2), (8, 8, 4), (2, 2, 1)], 5)
    before = full.cpu.sum(), full.memory.sum(), full.left.sum()
    filled = fill(np.array(kinds, np.int64), asked, full, Placement.build(name), seed)
    assert min(full.cpu.min(), full.memory.min(), full.left.min()) >= 0
    placed = np.array(kinds, np.int64)[filled.node >= 0]
    after = full.cpu.sum(), full.memory.sum(), full.left.sum()
    taken = asked.cpu[placed].sum(), asked.memory[placed].sum(), asked.asked[placed].sum()
    assert tuple(np.subtract(before, after)) == taken
    again = machines([(4, 4, 2), (8, 8, 4), (2, 2, 1)], 5)
    for kind, node in zip(kinds, filled.node, strict=True):  # in its own order, nobody was left out who had room
        room = [again.fits(asked, other)[kind] for other in range(3)]
        assert (node >= 0) == any(room)
        if node >= 0:
            assert room[node]
            again.take(asked, kind, node, again.tightest(node, asked.gpus[kind], asked.milli[kind]))
            if name in ("random", "fgd"):
                return  # they draw or choose accelerators otherwise: only the first step can be followed
    assert filled.allocation(7000, 1.0) <= 1.0


def test_a_part_of_an_accelerator_goes_where_the_rest_stays_useful(requests, machines):
    asked = requests([(1, 1, 1, 500), (1, 1, 2, 1000)])
    for name, wanted in [("fgd", [0, 0, 1]), ("best_fit", [0, 0, 1])]:
        full = machines([(9, 9, 1), (9, 9, 2)], 2)
        assert fill(np.array([0, 0, 1]), asked, full, Placement.build(name)).node.tolist() == wanted


def test_models_are_respected(requests, machines):
    asked = requests([(1, 1, 1, 1000)], allowed=[[False, True]])
    full = machines([(4, 4, 1), (4, 4, 1)], 1, model=[0, 1])
    assert fill(np.array([0, 0]), asked, full, Placement.build("best_fit")).node.tolist() == [1, -1]

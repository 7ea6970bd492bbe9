"""Sizers against small cases."""

from itertools import product

import numpy as np
import pytest

from mfcp.simulator.qore.rivals import MOST, elastic_flow, optimus, slaq
from mfcp.simulator.qore.running import Seen


def seen(seed, k=4):
    rng = np.random.default_rng(seed)
    left = rng.uniform(100, 2000, k)
    return Seen(
        np.arange(k), left, rng.uniform(0, 1000, k), rng.uniform(1, 10, k), rng.uniform(-100, 8000, k),
        rng.uniform(0.05, 0.2, k),
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [optimus, slaq, elastic_flow])
@pytest.mark.parametrize("seed", range(12))
def test_no_more_than_there_is_and_nothing_useful_left_over(sizes, seed):
    case = seen(seed, 9)
    workers = sizes(case)
    taken = float((workers * case.need).sum())
    assert taken <= 1 + 1e-9
    assert ((workers >= 0) & (workers <= MOST)).all()
    assert (case.need[workers < MOST] > 1 - taken).all()


@pytest.mark.parametrize("seed", range(12))
def test_equal_needs_make_the_steps_of_most_saved_time_the_best_choice(seed):
    """Time saved falls with every worker, so that of equal steps the greedy choice is the best of all."""
    case = seen(seed)
    case = Seen(case.row, case.left, case.done, case.seconds, case.available, np.full(4, 0.11))
    whole = case.left * case.seconds

    def total(workers):
        return float((whole / np.maximum(workers, 1e-3)).sum())

    best = min(total(np.array(each)) for each in product(range(1, MOST + 1), repeat=4) if sum(each) * 0.11 <= 1)
    assert total(optimus(case)) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(12))
def test_who_can_be_on_time_within_what_there_is_has_enough(seed):
    case = seen(seed)
    workers = elastic_flow(case)
    least = np.ceil(case.left * case.seconds / np.maximum(case.available, 1e-3))
    fine = (case.available > 0) & (least <= MOST)
    if (least[fine] * case.need[fine]).sum() <= 1:
        assert (workers[fine] >= least[fine]).all()


def test_quality_goes_to_the_young():
    case = Seen(np.arange(2), np.array([900.0, 100.0]), np.array([100.0, 900.0]), np.full(2, 5.0), np.full(2, 1e4),
                np.full(2, 0.15))  # fmt: skip
    first, second = slaq(case)
    assert first > second

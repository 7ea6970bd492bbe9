"""Sizers against small cases."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mfcp.simulator.policies.hosting import SizeWish
from mfcp.simulator.policies.on_hosts.sizing_all import HostedElasticFlow, HostedOptimus, HostedSlaq

MOST = HostedOptimus().most
EVERY = (HostedOptimus(), HostedSlaq(), HostedElasticFlow())


def wish(seed, k=4):
    rng = np.random.default_rng(seed)
    left = rng.uniform(100, 2000, k)
    return SizeWish(
        np.arange(k), left, rng.uniform(0, 1000, k), rng.uniform(1, 10, k), rng.uniform(-100, 8000, k),
        need := np.column_stack([np.zeros(k), *rng.uniform(0.05, 0.2, (2, k))]), need @ [0.0, 0.7, 0.3],
    )  # fmt: skip


@pytest.mark.parametrize("policy", EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize("seed", range(12))
def test_no_more_than_there_is_and_nothing_useful_left_over(policy, seed):
    case = wish(seed, 9)
    workers = policy.sizes(case)
    taken = workers @ case.need
    assert (taken <= 1 + 1e-9).all()
    assert ((workers >= 0) & (workers <= MOST)).all()
    assert (case.need[workers < MOST] > 1 - taken).any(axis=1).all()


@pytest.mark.parametrize("seed", range(12))
def test_equal_needs_make_the_steps_of_most_saved_time_the_best_choice(seed):
    """Time saved falls with every worker, so that of equal steps the greedy choice is the best of all."""
    case = wish(seed)
    case = replace(case, need=np.full((4, 3), 0.11), cost=np.full(4, 0.11))
    whole = case.left * case.seconds

    def total(workers):
        return float((whole / np.maximum(workers, 1e-3)).sum())

    best = min(total(np.array(each)) for each in product(range(1, MOST + 1), repeat=4) if sum(each) * 0.11 <= 1)
    assert total(HostedOptimus().sizes(case)) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(12))
def test_who_can_be_on_time_within_what_there_is_has_enough(seed):
    case = wish(seed)
    workers = HostedElasticFlow().sizes(case)
    least = np.ceil(case.left * case.seconds / np.maximum(case.available, 1e-3))
    fine = (case.available > 0) & (least <= MOST)
    if (least[fine] @ case.need[fine] <= 1).all():
        assert (workers[fine] >= least[fine]).all()


def test_quality_goes_to_the_young():
    case = SizeWish(np.arange(2), np.array([900.0, 100.0]), np.array([100.0, 900.0]), np.full(2, 5.0), np.full(2, 1e4),
                np.full((2, 3), 0.15), np.full(2, 0.15))  # fmt: skip
    first, second = HostedSlaq().sizes(case)
    assert first > second

"""Bounds of cluster scheduling: against a program of all pairs, and never below what is reached."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.dede.bounds import _dual, best_max_min, best_proportional, max_min_bound, proportional_bound
from benchmarks.dede.cluster_scheduling import MaxMin, Proportional, draw, exact_max_min, exact_proportional

SCALE = 1 / 32


@pytest.mark.parametrize("seed", range(4))
def test_max_min_is_the_optimum_of_all_pairs_whatever_it_starts_from(seed):
    jobs = draw(seed, SCALE)
    blocks = MaxMin(jobs)
    optimum = blocks.quality(exact_max_min(jobs))
    for near in (np.zeros_like(jobs.s), blocks.repaired(blocks.cold().z), exact_max_min(jobs)):
        found = max_min_bound(jobs, near)
        assert found.value == pytest.approx(optimum, rel=2e-4)
        assert optimum <= found.bound * (1 + 1e-7)
        assert found.bound <= (1 + 2e-4) * optimum


@pytest.mark.parametrize("seed", range(4))
def test_proportional_is_bounded_from_above_and_closely(seed):
    jobs = draw(seed, SCALE)
    blocks = Proportional(jobs)
    best = blocks.repaired(exact_proportional(jobs))
    optimum = blocks.quality(best)
    found = proportional_bound(jobs, best)
    assert optimum <= found.bound * (1 + 1e-6)
    assert found.bound <= 1.002 * optimum
    far = proportional_bound(jobs, blocks.repaired(blocks.cold().z))
    assert optimum <= far.bound * (1 + 1e-6)


def test_any_prices_bound_the_sum_of_logarithms():
    jobs = draw(7, SCALE)
    blocks = Proportional(jobs)
    reached = len(jobs.g) * np.log(blocks.quality(blocks.repaired(exact_proportional(jobs))))
    rng = np.random.default_rng(0)
    for _ in range(10):
        assert reached <= _dual(jobs, rng.exponential(1.0, len(jobs.W)) / jobs.W.mean()) + 1e-6


def test_equal_types_and_jobs():
    """Ties everywhere: every job is as fast everywhere, GPUs for half of them."""
    jobs = draw(0, SCALE)
    N = len(jobs.g)
    even = replace(jobs, s=np.ones_like(jobs.s), g=np.ones(N), W=np.full(len(jobs.W), N / 2 / len(jobs.W)))
    assert max_min_bound(even, np.zeros_like(even.s)).value == pytest.approx(0.5, rel=1e-4)
    assert proportional_bound(even, np.full_like(even.s, 0.5 / len(even.W))).bound == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_few_pairs_are_as_good_as_those_of_all(seed):
    jobs = draw(seed, SCALE)
    for kind, best, exact in (
        (MaxMin, best_max_min, exact_max_min),
        (Proportional, best_proportional, exact_proportional),
    ):
        blocks = kind(jobs)
        assert blocks.quality(best(jobs)) == pytest.approx(blocks.quality(exact(jobs)), rel=3e-4)

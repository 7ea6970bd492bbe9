"""Drawn pool sizes balance the clusters."""

import numpy as np
import pytest

from mfcp.data.pool.effects import cluster_effects
from mfcp.study.invented.pool_sizes import balanced_pools


@pytest.mark.parametrize("seed", range(5))
def test_balanced_pools_bring_mean_speeds_within_the_stated_factor(seed):
    rng = np.random.default_rng(seed)
    T = np.exp(np.add.outer(rng.normal(0, 2, 6), rng.normal(0, 1, 40)) + rng.normal(0, 0.3, (6, 40)))
    T[rng.random(T.shape) < 0.2] = np.nan
    logged = np.array([1.0, 8, 1, 1, 2, 1])
    pools = balanced_pools(T, logged, seed=seed)
    effect, _ = cluster_effects(T * (logged / pools)[:, None])
    assert np.ptp(effect) <= np.log(1.4) + 1e-9
    assert np.ptp(effect) > 0.01
    assert pools.min() == 1.0
    np.testing.assert_array_equal(pools, balanced_pools(T, logged, seed=seed))

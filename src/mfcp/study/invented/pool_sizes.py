"""Pool sizes that an experiment draws, so that no cluster takes every task of a log of single devices."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats
from mfcp.data.pool.effects import cluster_effects

SMALLEST_RATIO = 1 / 1.4
"""Balanced pools: mean speeds of two clusters differ by at most this factor, 0.71, or its inverse, 1.4."""


def balanced_pools(T: Floats, pool_size: Floats, *, seed: int) -> Floats:
    """(M,) accelerators per cluster with which mean speeds lie within a factor 0.71-1.4 of each other.

    A cluster's mean speed is its effect on log time after the tasks' effects are taken out. Clusters that share no
    task, even through others, cannot be compared and are balanced apart. Sizes are real numbers (an equivalent of
    whole machines), the least of each group 1, and execution time is inverse to them.

    Args:
        T: (M, n) seconds with `pool_size` accelerators, nan where unknown.
        pool_size: (M,) of the log.
        seed: of the spread that is left.
    """
    effect, group = cluster_effects(T)
    rng = np.random.default_rng([seed, 0x9001])
    half = -np.log(SMALLEST_RATIO) / 2
    log_size = np.log(pool_size) + effect + rng.uniform(-half, half, len(T))
    for g in np.unique(group):
        log_size[group == g] -= log_size[group == g].min()
    result: Floats = np.exp(log_size)
    return result

"""Shares of small cases, by hand or against another solver."""

import numpy as np
import pytest
from scipy.optimize import linprog

from mfcp.simulator.policies.base import Policy


def least_ratio(now):
    """By bisection over linear programs."""
    k, kinds = now.speed.shape
    alone = now.isolated + now.left / now.equal_split
    low, high = 0.0, 1e3
    for _ in range(60):
        ratio = (low + high) / 2
        need = now.left / np.maximum(ratio * alone - now.waited, 1e-12)
        rows = np.zeros((2 * k + kinds, k * kinds))
        for i in range(k):
            rows[i, i * kinds : (i + 1) * kinds] = -now.speed[i]
            rows[k + i, i * kinds : (i + 1) * kinds] = 1
        for j in range(kinds):
            rows[2 * k + j, j::kinds] = now.gpus
        feasible = linprog(np.zeros(k * kinds), rows, np.concatenate([-need, np.ones(k), now.size])).status == 0
        low, high = (low, ratio) if feasible else (ratio, high)
    return high


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_ratio_is_the_least_possible(moment, seed):
    rng = np.random.default_rng(seed)
    now = moment(
        rng.uniform(0.2, 2, (6, 2)), [2, 1], left=rng.uniform(10, 100, 6), waited=rng.uniform(0, 50, 6),
        isolated=rng.uniform(0, 50, 6), gpus=np.array([1, 1, 1, 1, 2, 1]),
    )  # fmt: skip
    share = Policy.build("finish_time").solve(now)
    throughput = (now.speed * share).sum(axis=1)
    ratios = (now.waited + now.left / throughput) / (now.isolated + now.left / now.equal_split)
    assert ratios.max() == pytest.approx(least_ratio(now), rel=1e-5)


def test_the_blind_one_sees_the_first_type_alone(moment):
    slow, fast = (moment([[1.0, s], [1.0, 1.0]], [1, 1]) for s in (0.1, 10.0))
    blind = Policy.build("finish_time_blind")
    assert np.allclose(blind.solve(slow), blind.solve(fast))

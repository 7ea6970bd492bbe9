"""Shares of small cases, by hand or against another solver."""

import numpy as np
import pytest
from scipy.optimize import linprog

from mfcp.simulator.policies.base import Policy


@pytest.mark.parametrize("seed", range(4))
def test_the_least_level_is_the_largest_possible_and_nobody_has_less_than_alone(moment, seed):
    rng = np.random.default_rng(seed)
    now = moment(rng.uniform(0.2, 2, (7, 3)), [2, 1, 1], gpus=np.array([1, 2, 1, 1, 1, 1, 1]))
    share = Policy.build("max_min").solve(now)
    level = (now.speed * share).sum(axis=1) / now.equal_split
    k, kinds = now.speed.shape
    rows = np.zeros((2 * k + kinds, k * kinds + 1))
    for i in range(k):
        rows[i, i * kinds : (i + 1) * kinds] = -now.speed[i] / now.equal_split[i]
        rows[i, -1] = 1
        rows[k + i, i * kinds : (i + 1) * kinds] = 1
    for j in range(kinds):
        rows[2 * k + j, j : k * kinds : kinds] = now.gpus
    best = linprog(-np.eye(k * kinds + 1)[-1], rows, np.concatenate([np.zeros(k), np.ones(k), now.size]))
    assert level.min() == pytest.approx(-best.fun, rel=1e-6)
    assert level.min() >= 1 - 1e-6
    assert (share.sum(axis=1) <= 1 + 1e-6).all()
    assert (now.gpus @ share <= now.size + 1e-6).all()


def test_no_share_where_a_job_does_not_run(moment):
    share = Policy.build("max_min").solve(moment([[1.0, 0.0], [1.0, 1.0]], [1, 1]))
    assert share[0, 1] < 1e-8


def test_las_gives_time_and_ignores_speed(moment):
    share = Policy.build("las_shares").solve(moment([[1.0, 9.0], [1.0, 1.0], [1.0, 1.0]], [1, 1]))
    assert np.allclose(share.sum(axis=1), 2 / 3, atol=1e-6)

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


@pytest.mark.parametrize("seed", range(6))
def test_with_pairs_the_least_level_is_the_largest_possible(moment, seed):
    rng = np.random.default_rng(seed)
    gpus, k = np.array([1, 2, 1, 1, 2]), 5
    pair = np.array([(i, j) for j in range(k) for i in range(j) if gpus[i] == gpus[j]])
    together = rng.uniform(0.1, 1.5, (len(pair), 2, 2)) * (rng.random((len(pair), 2, 1)) < 0.7)
    now = moment(rng.uniform(0.2, 2, (k, 2)), [2, 1], gpus=gpus, pair=pair, together=together)
    share = Policy.build("max_min_packed").solve(now)
    # The same program, an entry at a time: columns are (entry, type) and the level.
    entries = [(i,) for i in range(k)] + [tuple(each) for each in pair.tolist()]
    rows, limit = np.zeros((2 * k + 2, 2 * len(entries) + 1)), np.concatenate([np.zeros(k), np.ones(k), now.size])
    for e, who in enumerate(entries):
        for kind in range(2):
            column = 2 * e + kind
            paces = [now.speed[who[0], kind]] if len(who) == 1 else together[e - k, kind]
            for i, pace in zip(who, paces, strict=True):
                rows[i, column] = -pace / now.equal_split[i]
                rows[k + i, column] = 1
            rows[2 * k + kind, column] = gpus[who[0]]
    rows[:k, -1] = 1
    best = linprog(-np.eye(rows.shape[1])[-1], rows, limit)
    found = rows @ np.append(share.ravel(), 0.0)
    assert -found[:k].max() == pytest.approx(-best.fun, rel=1e-6)
    assert (found[k:] <= limit[k:] + 1e-6).all()
    assert (share[k:][together.min(axis=2) == 0] == 0).all()
    assert -best.fun >= most(moment, now) - 1e-9


def most(moment, now):
    """The least level of the same jobs without pairs."""
    alone = moment(now.speed, now.size, gpus=now.gpus)
    return ((alone.speed * Policy.build("max_min").solve(alone)).sum(axis=1) / alone.equal_split).min()


def test_no_share_where_a_job_does_not_run(moment):
    share = Policy.build("max_min").solve(moment([[1.0, 0.0], [1.0, 1.0]], [1, 1]))
    assert share[0, 1] < 1e-8


def test_las_gives_time_and_ignores_speed(moment):
    share = Policy.build("las_shares").solve(moment([[1.0, 9.0], [1.0, 1.0], [1.0, 1.0]], [1, 1]))
    assert np.allclose(share.sum(axis=1), 2 / 3, atol=1e-6)

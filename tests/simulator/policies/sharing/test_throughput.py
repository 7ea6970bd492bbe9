"""Shares of small cases, by hand or against another solver."""

import numpy as np
import pytest
from scipy.optimize import linprog

from mfcp.errors import SettingsError
from mfcp.simulator.policies.base import Policy


def test_types_go_to_those_who_gain_most(moment):
    now = moment([[1.0, 8.0], [1.0, 2.0]], [1, 1])
    share = Policy.build("most_throughput").solve(now)
    assert np.allclose(share, [[0, 1], [1, 0]], atol=1e-6)


def test_plain_throughput_goes_to_who_makes_many_steps(moment):
    """Over an equal split both are alike, and the job of one accelerator is worth more for each."""
    now = moment([[8.0], [1.0]], [2], gpus=np.array([2, 1]))
    plain = Policy.build("most_throughput", plain=True).solve(now)
    assert np.allclose(plain.ravel(), [1, 0], atol=1e-6)


def test_the_least_makespan_gives_more_to_who_has_more_left(moment):
    now = moment([[1.0], [1.0]], [1], left=np.array([10.0, 30.0]))
    share = Policy.build("least_makespan").solve(now)
    assert share.ravel() == pytest.approx([0.25, 0.75], abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_throughput_per_cost_is_the_most_of_all(moment, seed):
    rng = np.random.default_rng(seed)
    now, prices = moment(rng.uniform(0.2, 2, (5, 2)), [2, 1]), (3.0, 1.0)
    share = Policy.build("throughput_per_cost", prices=prices).solve(now)
    worth = now.speed / now.equal_split[:, None] / np.array(prices)
    rows = [np.kron(np.eye(5)[i], np.ones(2)) for i in range(5)] + [np.kron(np.ones(5), np.eye(2)[j]) for j in range(2)]
    best = linprog(-worth.ravel(), rows, [*np.ones(5), *now.size])
    assert (worth * share).sum() == pytest.approx(-best.fun, rel=1e-6)


def test_prices_must_be_of_all_types(moment):
    for prices in ((1.0,), (1.0, 0.0)):
        with pytest.raises(SettingsError, match="expected 2 above 0"):
            Policy.build("throughput_per_cost", prices=prices).solve(moment(np.ones((2, 2)), [1, 1]))


@pytest.mark.parametrize("seed", range(4))
def test_makespan_with_pairs_is_no_longer_and_as_short_as_can_be(moment, seed):
    rng = np.random.default_rng(seed)
    pair = np.array([(i, j) for j in range(4) for i in range(j)])
    together = rng.uniform(0.3, 1.0, (6, 1, 2))
    left = rng.uniform(50, 500, 4)
    now = moment(np.ones((4, 1)), [2], left=left, pair=pair, together=together)
    share = Policy.build("least_makespan_packed").solve(now)
    # Columns are four jobs, six pairs, and jobs finished per second.
    rows, limit = np.zeros((9, 11)), np.concatenate([np.zeros(4), np.ones(4), [2.0]])
    for column in range(10):
        who = [column] if column < 4 else pair[column - 4].tolist()
        paces = [1.0] if column < 4 else together[column - 4, 0]
        for job, pace in zip(who, paces, strict=True):
            rows[job, column], rows[4 + job, column] = -pace / left[job], 1
        rows[8, column] = 1
    rows[:4, 10] = 1
    best = -linprog(-np.eye(11)[10], rows, limit).fun
    speed = share[:4, 0].copy()
    for side in (0, 1):
        np.add.at(speed, pair[:, side], together[:, 0, side] * share[4:, 0])
    assert (speed / left).min() == pytest.approx(best, rel=1e-5)
    alone = Policy.build("least_makespan").solve(moment(np.ones((4, 1)), [2], left=left))
    assert best >= (alone[:, 0] / left).min() * (1 - 1e-6)

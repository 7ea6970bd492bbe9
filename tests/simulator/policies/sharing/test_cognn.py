"""Balanced pairs, against all pairings."""

import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.sharing.cognn import weights


def pairings(jobs):
    """Every way to part jobs in twos."""
    if not jobs:
        yield []
        return
    first, *rest = jobs
    for other in rest:
        for more in pairings([job for job in rest if job != other]):
            yield [(first, other), *more]


def case(moment, seed):
    """Each job takes a part of its own from whoever shares with it; more jobs than places."""
    rng = np.random.default_rng(seed)
    places = int(rng.integers(1, 5))
    k = int(rng.integers(places + 1, 2 * places + 2))
    heavy = rng.choice([0.0, 0.1, 0.2, 0.5, 0.7], k)
    pair = np.array([(i, j) for j in range(k) for i in range(j)])
    together = np.stack([1 - heavy[pair[:, 1]], 1 - heavy[pair[:, 0]]], axis=1)[:, None]
    return moment(np.ones((k, 1)), [places], pair=pair, together=together), heavy, places


@pytest.mark.parametrize("seed", range(40))
def test_the_heaviest_pair_is_as_light_as_can_be_and_the_heaviest_jobs_are_alone(moment, seed):
    now, heavy, places = case(moment, seed)
    share = Policy.build("cognn").solve(now)
    k = len(now.job)
    assert set(share.ravel().tolist()) <= {0.0, 1.0}
    assert share.sum() == places
    pairs = now.pair[share[k:, 0] > 0].tolist()
    alone = np.flatnonzero(share[:k, 0] > 0).tolist()
    running = sorted([job for each in pairs for job in each] + alone)
    assert running == list(range(min(k, 2 * places)))  # the first that were submitted
    shared = [job for each in pairs for job in each]
    assert not alone or max(heavy[shared]) <= min(heavy[alone])
    best = min(max(heavy[list(each)].sum() for each in way) for way in pairings(sorted(shared)))
    assert max(heavy[list(each)].sum() for each in pairs) == pytest.approx(best)


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_places_hold_jobs_of_every_size(moment, seed, balanced):
    """Unequal jobs on unequal types: nobody gets more accelerators than there are, or runs twice."""
    rng = np.random.default_rng(seed)
    k, size = int(rng.integers(1, 9)), rng.integers(0, 6, 2)
    gpus = rng.choice([1, 2, 4], k)
    speed = rng.choice([0.0, 1.0, 2.0], (k, 2), p=[0.2, 0.4, 0.4])
    pair = np.array([(i, j) for j in range(k) for i in range(j) if gpus[i] == gpus[j]], np.int64).reshape(-1, 2)
    together = 0.7 * np.stack([speed[pair[:, 0]], speed[pair[:, 1]]], axis=2)
    now = moment(speed, size, gpus=gpus, pair=pair, together=together)
    share = Policy.build("cognn", balanced=balanced).solve(now)
    asked = np.concatenate([gpus, gpus[pair[:, 0]]])
    assert (asked @ share <= size).all()
    each = share.sum(axis=1)
    runs = each[:k] + [each[k:][(pair == job).any(axis=1)].sum() for job in range(k)]
    assert set(runs.tolist()) <= {0.0, 1.0}
    assert not (share[:k] > 0)[speed == 0].any()


def test_a_job_is_as_heavy_as_others_become_slow_beside_it(moment):
    pair = np.array([(0, 1), (0, 2), (1, 2)])
    together = np.array([[0.9, 0.5], [0.7, 1.0], [0.4, 0.8]])[:, None]  # of the first and of the second
    now = moment(np.ones((3, 1)), [1], pair=pair, together=together)
    expected = [(0.5 + 0.0) / 2, (0.1 + 0.2) / 2, (0.3 + 0.6) / 2]
    assert weights(now, now.kept) == pytest.approx(expected)


def test_without_balance_jobs_share_in_their_order(moment):
    now, *_ = case(moment, 3)
    share = Policy.build("cognn", balanced=False).solve(now)
    k, places = len(now.job), int(now.size[0])
    guests = min(k - places, places)
    assert now.pair[share[k:, 0] > 0].tolist() == [[i, places + i] for i in range(guests)]
    assert np.flatnonzero(share[:k, 0]).tolist() == list(range(guests, places))


def test_who_cannot_share_waits(moment):
    pair = np.array([(0, 1)])
    now = moment(np.ones((2, 1)), [1], pair=pair, together=np.zeros((1, 1, 2)))
    assert Policy.build("cognn").solve(now).ravel().tolist() == [1, 0, 0]
    nobody = moment(np.ones((2, 1)), [1])
    assert Policy.build("cognn").solve(nobody).ravel().tolist() == [1, 0]


def test_all_jobs_have_places_of_their_own_while_they_fit(moment):
    now, *_ = case(moment, 0)
    roomy = moment(np.ones((2, 1)), [2], pair=np.array([(0, 1)]), together=np.ones((1, 1, 2)))
    assert Policy.build("cognn").solve(roomy).ravel().tolist() == [1, 1, 0]
    assert Policy.build("cognn").solve(now).shape == (len(now.job) + len(now.pair), 1)

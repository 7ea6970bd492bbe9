"""Offline jobs that share with online ones, against all matchings."""

from itertools import permutations

import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy


def case(moment, seed):
    """Online jobs and more offline ones than fit, on two types."""
    rng = np.random.default_rng(seed)
    k, size = int(rng.integers(3, 8)), [int(rng.integers(1, 3)), 1]
    pair = np.array([(i, j) for j in range(k) for i in range(j)])
    together = rng.choice([0.0, 0.5, 0.8, 0.9, 1.0], (len(pair), 2, 2))
    together *= (together.min(axis=2) > 0)[:, :, None]
    deadline = np.where(rng.random(k) < 0.5, 9.0, np.inf)
    return moment(np.tile([1.0, 1.25], (k, 1)), size, pair=pair, together=together, deadline=deadline)


@pytest.mark.parametrize("seed", range(40))
def test_no_matching_gives_offline_jobs_more(moment, seed):
    now = case(moment, seed)
    k, online = len(now.job), np.isfinite(now.deadline)
    share = Policy.build("muxflow").solve(now)
    order = [*np.flatnonzero(online), *np.flatnonzero(~online)]
    types = ([1] + [0] * int(now.size[0]))[:k]  # the fastest has one place
    place = dict(zip(order, types, strict=False))
    guests = [job for job in order if job not in place and not online[job]]
    hosts = [job for job in order if job in place and online[job]]
    number = {tuple(each): row for row, each in enumerate(now.pair.tolist())}

    def gain(host, guest):
        if host is None:
            return 0.0
        low, high = min(host, guest), max(host, guest)
        speeds = now.together[number[low, high], place[host]] / now.speed[0, place[host]]
        kept, got = (speeds[0], speeds[1]) if host == low else (speeds[1], speeds[0])
        return float(got) if kept >= 0.8 else 0.0

    best = max(
        sum(gain(host, guest) for host, guest in zip(chosen, guests, strict=True))
        for chosen in permutations(hosts + [None] * len(guests), len(guests))
    )
    found, hosting = 0.0, set()
    for row in np.flatnonzero(share[k:].any(axis=1)):
        one, other = now.pair[row].tolist()
        host, guest = (one, other) if one in hosts else (other, one)
        assert guest in guests
        assert share[k + row, place[host]] == 1.0
        found += gain(host, guest)
        hosting.add(host)
    assert found == pytest.approx(best)
    assert {job for job in range(k) if share[job].any()} == set(place) - hosting
    assert all(share[job, kind] == 1.0 for job, kind in place.items() if job not in hosting)


def test_without_pairs_online_jobs_come_first(moment):
    now = moment(np.ones((3, 1)), [1], deadline=np.array([np.inf, np.inf, 5.0]))
    assert Policy.build("muxflow").solve(now).ravel().tolist() == [0, 0, 1]

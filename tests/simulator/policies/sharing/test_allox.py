"""Shares of small cases, by hand or against another solver."""

import itertools

import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy


def test_on_one_device_the_shortest_job_is_next(moment):
    now = moment([[1.0], [1.0], [1.0]], [1], left=np.array([30.0, 10.0, 20.0]))
    assert Policy.build("allox").solve(now).ravel().tolist() == [0, 1, 0]


def test_who_has_a_device_keeps_it(moment):
    now = moment([[1.0], [1.0]], [1], left=np.array([30.0, 10.0]), before=np.array([[1.0], [0.0]]))
    assert Policy.build("allox").solve(now).ravel().tolist() == [1, 0]


def test_heads_of_queues_are_those_of_the_best_schedule(moment):
    """Against every assignment of four jobs to two devices, each device in the order of its times."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        speed, left = rng.uniform(0.2, 2, (4, 2)), rng.uniform(1, 100, 4)

        def total(devices, speed=speed, left=left):
            ends = 0.0
            for device in (0, 1):
                times = sorted(left[j] / speed[j, device] for j in range(4) if devices[j] == device)
                ends += np.cumsum(times).sum()
            return ends

        best = min(itertools.product((0, 1), repeat=4), key=total)
        share = Policy.build("allox").solve(moment(speed, [1, 1], left=left))
        for device in (0, 1):
            own = [j for j in range(4) if best[j] == device]
            heads = np.flatnonzero(share[:, device]).tolist()
            assert heads == ([min(own, key=lambda j: left[j] / speed[j, device])] if own else [])


def test_only_the_oldest_part_is_planned(moment):
    now = moment([[1.0], [1.0], [1.0]], [1], left=np.array([30.0, 10.0, 5.0]))
    assert Policy.build("allox", alpha=0.7).solve(now).ravel().tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="alpha"):
        Policy.members["allox"](alpha=0)


def test_gangs_are_held_or_planned_anew(moment):
    """Of 4 devices a job of 2 has 2, the others share the rest; or it has one place, and half a share."""
    now = moment([[1.0]] * 3, [4], gpus=np.array([2, 2, 1]), left=np.array([30.0, 10.0, 50.0]),
                 before=np.array([[1.0], [0.0], [0.0]]))  # fmt: skip
    assert Policy.build("allox").solve(now).ravel().tolist() == [1, 1, 1]
    anew = Policy.build("allox", gangs="anew")
    now = moment([[1.0]] * 3, [4], gpus=np.array([2, 2, 1]), left=np.array([30.0, 10.0, 50.0]),
                 before=np.array([[0.5], [0.0], [0.0]]))  # fmt: skip
    assert anew.solve(now).ravel().tolist() == [0.5, 0.5, 1]
    now = moment([[1.0]] * 2, [1], gpus=np.array([1, 1]), left=np.array([30.0, 10.0]), before=np.array([[1.0], [0.0]]))
    assert anew.solve(now).ravel().tolist() == [1, 0]

"""Shares of small cases, by hand or against another solver."""

from random import Random

import numpy as np
import pytest

from mfcp.simulator.policies.base import Moment, Policy


def test_a_free_place_goes_to_the_next_and_is_kept(moment):
    policy = Policy.build("in_turn")
    first = policy.solve(moment(np.ones((3, 2)), [1, 1]))
    assert first.tolist() == [[1, 0], [0, 1], [0, 0]]
    later = policy.solve(moment(np.ones((2, 2)), [1, 1], before=first[1:], freed=(0,)))
    assert later.tolist() == [[0, 1], [1, 0]]


def as_published(seed, count, *, gpus=1, speed=None, size=(1, 2, 2)):
    """(k, K) shares of so many jobs."""
    speed = np.ones((count, len(size))) if speed is None else np.array(speed)
    moment = Moment(
        np.arange(count), np.full(count, gpus, np.int64), speed, np.ones(count), np.zeros(count), np.zeros(count),
        np.zeros(speed.shape), (), np.array(size), Random(seed),
    )  # fmt: skip
    return Policy.build("in_turn", published=True).watch()(moment)


def test_the_published_program_gives_a_full_type_again():
    assert all(as_published(seed, 1).tolist() == [[1, 0, 0]] for seed in range(8))
    found = {tuple(as_published(seed, 5).sum(axis=0).astype(int).tolist()) for seed in range(40)}
    assert (1, 2, 2) in found
    assert any(first > 1 for first, _, _ in found)


def test_what_the_published_program_draws_by_hand():
    """Types of one: the first job has the first. If another was drawn, that is left out, and the first given again
    while any type has room; with two types none has."""
    for seed in range(20):
        assert as_published(seed, 2, size=(1, 1)).tolist() == [[1, 0], [[0, 0], [0, 1]][Random(seed).randrange(2)]]
        drawn = Random(seed).randrange(3)  # of third, second, first
        second = as_published(seed, 2, size=(1, 1, 1))[1].tolist()
        assert second == ([0, 1, 0] if drawn == 2 else [1, 0, 0])
    assert as_published(0, 1, speed=[[0.0, 1.0]], size=(1, 1)).tolist() == [[0, 0]]  # it runs nowhere else this time
    assert as_published(0, 2, gpus=3, size=(2, 2)).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("ended", [0, 1])
def test_as_published_a_place_goes_to_the_next_and_the_others_keep_theirs(ended):
    watch = Policy.build("in_turn", published=True).watch()

    def at(jobs):
        n = len(jobs)
        return watch(Moment(
            np.array(jobs), np.ones(n, np.int64), np.ones((n, 1)), np.ones(n), np.zeros(n), np.zeros(n),
            np.zeros((n, 1)), (), np.array([2]), Random(0),
        )).ravel().tolist()  # fmt: skip

    assert at([0, 1, 2]) == [1, 1, 0]
    assert at([job for job in (0, 1, 2) if job != ended]) == [1, 1]


def test_the_fastest_type_with_room_and_nobody_passes(moment):
    policy = Policy.build("in_turn_fastest")
    assert policy.solve(moment([[1.0, 2.0], [1.0, 9.0]], [1, 1])).tolist() == [[0, 1], [1, 0]]
    wide = moment(np.ones((3, 1)), [3], gpus=np.array([2, 2, 1]))
    assert policy.solve(wide).ravel().tolist() == [1, 0, 0]


def packed(moment, together, count, **changes):
    """`together` of pairs that are named, and .1 of others; one type of one or two accelerators."""
    pair = np.array([(i, j) for j in range(count) for i in range(j)], np.int64)
    speed = np.array([together.get(tuple(each), (0.1, 0.1)) for each in pair.tolist()])[:, None, :]
    now = moment(np.ones((count, 1)), pair=pair, together=speed, **changes)
    share = Policy.build("in_turn_packed").solve(now)
    return [(i,) for i in np.flatnonzero(share[:count, 0])] + [
        tuple(each) for each in pair[share[count:, 0] > 0].tolist()
    ]


def test_who_finds_no_room_shares_with_the_best_partner(moment):
    gains = {(0, 2): (0.8, 0.8), (1, 2): (0.9, 0.8), (0, 3): (0.9, 0.9), (1, 3): (1.0, 1.0)}
    assert packed(moment, gains, 4, size=[2]) == [(1, 2), (0, 3)]
    assert packed(moment, {(0, 2): (0.8, 0.8)}, 4, size=[2]) == [(1,), (0, 2)]


def test_nobody_passes_one_that_finds_no_partner(moment):
    assert packed(moment, {(0, 2): (0.9, 0.9)}, 3, size=[1]) == [(0,)]
    assert packed(moment, {(0, 1): (0.75, 0.75)}, 2, size=[1]) == [(0,)]  # 1.5 are not more than 1.5


def test_packing_without_pairs_is_the_same_as_without(moment):
    now = moment([[1.0, 2.0], [1.0, 9.0], [1.0, 1.0]], [1, 1])
    assert Policy.build("in_turn_packed").solve(now).tolist() == Policy.build("in_turn_fastest").solve(now).tolist()

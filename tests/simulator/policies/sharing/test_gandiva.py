"""Packing by trial."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from mfcp.simulator.policies.base import Policy


def crowd(moment, together, count=4, size=(2,), **changes):
    pair = np.array([(i, j) for j in range(count) for i in range(j)], np.int64)
    speed = np.full((len(pair), len(size), 2), together) if np.isscalar(together) else together
    return moment(np.ones((count, len(size))), size, pair=pair, together=speed, **changes)


def test_an_equal_split_while_all_fit(moment):
    share = Policy.build("gandiva").solve(crowd(moment, 0.9, size=(2, 6)))
    assert share[:4] == pytest.approx(np.tile([0.25, 0.75], (4, 1)))
    assert (share[4:] == 0).all()


def test_everybody_is_packed_when_not_all_fit(moment):
    now = crowd(moment, 0.9)
    share = Policy.build("gandiva").solve(now)
    chosen = now.pair[share[4:, 0] > 0]
    assert sorted(chosen.ravel().tolist()) == [0, 1, 2, 3]
    assert share[4:][share[4:] > 0] == pytest.approx([1.0, 1.0])
    assert (share[:4] == 0).all()


def test_a_pair_stays_until_one_has_gone(moment):
    solve = Policy.build("gandiva").watch()
    first = solve(crowd(moment, 0.9))
    assert solve(crowd(moment, 0.9)).tolist() == first.tolist()
    pairs = {tuple(each) for each in crowd(moment, 0.9).pair[first[4:, 0] > 0].tolist()}
    one, other = next(pair for pair in pairs if 0 in pair)
    now = crowd(moment, 0.9, job=np.array([1, 2, 3, 4]))  # job 0 has ended, job 4 has come
    chosen = {tuple(now.job[pair].tolist()) for pair in now.pair[solve(now)[4:, 0] > 0]}
    assert chosen == (pairs - {(one, other)}) | {(other, 4)}


def test_a_pair_that_slows_down_is_parted_and_others_are_tried(moment):
    now = crowd(moment, 0.4, count=8, size=(2,))
    solve = Policy.build("gandiva").watch()
    drawn = {tuple(map(tuple, now.pair[solve(now)[8:, 0] > 0].tolist())) for _ in range(4)}
    assert len(drawn) > 1
    kept = Policy.build("gandiva").watch()
    now = crowd(moment, 0.5, count=8, size=(2,))
    assert len({tuple(map(tuple, now.pair[kept(now)[8:, 0] > 0].tolist())) for _ in range(4)}) == 1


def test_as_published_pairs_are_drawn_in_the_order_of_a_set_and_may_run_nowhere(moment):
    """Jobs 1, 8 and 16 in a set of Python: 8, 16, 1 or so, whatever the order of submission. No pair has a speed."""
    now = moment(np.ones((3, 1)), [2], job=np.array([1, 8, 16]))
    jobs = set()
    for job in (1, 8, 16):
        jobs.add(job)
    assert list(jobs) != [1, 8, 16]
    one, other = Random(0).sample(list(jobs), 2)
    alone = ({1, 8, 16} - {one, other}).pop()
    share = Policy.build("gandiva", published=True).solve(replace(now, random=Random(0)))
    assert share.ravel().tolist() == [1.0 if job == alone else 0.0 for job in (1, 8, 16)]  # two places, two runs


def test_as_published_a_pair_that_runs_nowhere_ends_at_the_next_reset(moment):
    now = replace(moment(np.ones((4, 1)), [2], job=np.arange(4)), random=Random(1))
    solve = Policy.build("gandiva", published=True).watch()
    assert not solve(now).any()
    later = replace(crowd(moment, 0.9), random=Random(2))
    share = solve(later)
    assert share[4:][share[4:] > 0] == pytest.approx([1.0, 1.0])


def test_jobs_of_other_sizes_stay_alone(moment):
    now = crowd(moment, 0.9, count=2, size=(2,), gpus=np.array([1, 2]))
    assert Policy.build("gandiva").solve(now).ravel().tolist() == [1.0, 0.5, 0.0]


def test_without_pairs_it_is_an_equal_split(moment):
    assert Policy.build("gandiva").solve(moment(np.ones((4, 1)), [2])).ravel().tolist() == [0.5] * 4

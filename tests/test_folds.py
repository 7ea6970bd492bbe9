"""Folds keep groups whole and are even."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from mfcp.folds import group_folds, training_folds

groups = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60).map(np.array)


@given(groups, st.integers(1, 5), st.integers(0, 99))
def test_every_group_lies_in_one_fold(group, count, seed):
    fold = group_folds(group, count, np.random.default_rng(seed))
    assert ((fold >= 0) & (fold < count)).all()
    for name in np.unique(group):
        assert len(np.unique(fold[group == name])) == 1


@given(groups, st.integers(2, 5), st.integers(0, 99))
def test_folds_differ_by_no_more_than_the_largest_group(group, count, seed):
    sizes = np.unique(group, return_counts=True)[1]
    assume(len(sizes) >= count)
    filled = np.bincount(group_folds(group, count, np.random.default_rng(seed)), minlength=count)
    assert filled.min() > 0
    assert filled.max() - filled.min() <= sizes.max()


def test_seeds_deal_differently_and_only_training_tasks_have_a_fold():
    group = np.repeat([f"f{k}" for k in range(20)], 2)
    train = np.ones((3, 40), bool)
    train[1, :8] = False
    folds = training_folds(group, train, 4, (0, 1, 2))
    assert (folds[1, :8] == -1).all()
    assert (folds[train] >= 0).all()
    assert not np.array_equal(folds[0], folds[2])
    np.testing.assert_array_equal(folds, training_folds(group, train, 4, (0, 1, 2)))

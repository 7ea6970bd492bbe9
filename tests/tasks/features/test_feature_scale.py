"""The scale of features is that of training tasks, and keeps extremes and unknown values in bounds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mfcp.tasks.features.feature_scale import Scale, standardise


@given(st.integers(0, 10_000))
def test_training_tasks_have_mean_0_and_deviation_1(seed):
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, (2, 30, 3)) * 10 ** rng.uniform(-3, 3, 3)
    train = rng.random((2, 30)) < 0.6
    train[:, :2] = True
    scaled = standardise(Z, train)
    for s in range(2):
        if train[s].sum() > 8:  # of few tasks one may lie beyond the cut
            np.testing.assert_allclose(scaled[s, train[s]].mean(axis=0), 0, atol=1e-9)
            np.testing.assert_allclose(scaled[s, train[s]].std(axis=0), 1, atol=1e-9)


def test_tasks_that_are_not_learned_from_do_not_change_the_scale():
    Z = np.random.default_rng(0).normal(size=(1, 10, 2))
    train = np.arange(10)[None] < 6
    changed = np.where(train[..., None], Z, 1e3)
    np.testing.assert_array_equal(Scale.of(Z, train).deviation, Scale.of(changed, train).deviation)


def test_extremes_are_cut_unknown_is_average_and_what_tells_nothing_is_zero():
    Z = np.array([[[0.0, 7.0], [2.0, 7.0], [1e9, 7.0], [np.nan, 9.0]]])
    scaled = Scale.of(Z[:, :2], np.ones((1, 2), bool)).apply(Z)
    assert scaled[0, :, 0].tolist() == [-1, 1, 5, 0]
    assert scaled[0, :, 1].tolist() == [0, 0, 0, 0]

"""Failures are drawn by name and attempt."""

import numpy as np
import pytest

from mfcp.simulator.luck import draw_failures

NAMES = np.array([f"job-{k}" for k in range(20_000)])


def test_draws_have_the_probabilities_and_are_uniform():
    success = np.tile([0.3, 0.9], 10_000)
    left = draw_failures(NAMES, success, 3, seed=5)
    assert left.shape == (20_000, 4)
    for part, share in ((left[::2], 0.7), (left[1::2], 0.1)):
        assert (part >= 0).mean(axis=0) == pytest.approx([share] * 4, abs=4 * np.sqrt(share * (1 - share) / 10_000))
        failed = np.sort(part[part >= 0])
        assert np.abs(failed - (np.arange(len(failed)) + 0.5) / len(failed)).max() < 2 / np.sqrt(len(failed))
    both = (left[:, 0] >= 0) & (left[:, 1] >= 0)
    assert both[::2].mean() == pytest.approx(0.49, abs=0.02)


def test_luck_is_the_jobs_own():
    success = np.full(20_000, 0.5)
    left = draw_failures(NAMES, success, 3, seed=5)
    rows = np.array([7, 3, 19_999])
    assert np.array_equal(draw_failures(NAMES[rows], success[rows], 3, seed=5), left[rows])
    assert np.array_equal(draw_failures(NAMES, success, 9, seed=5)[:, :4], left)
    other = draw_failures(NAMES, success, 3, seed=6)
    assert ((other >= 0) == (left >= 0)).mean() == pytest.approx(0.5, abs=0.02)
    better = draw_failures(NAMES, np.full(20_000, 0.8), 3, seed=5)
    assert (left[better >= 0] == better[better >= 0]).all()  # what fails at 0.8 fails at 0.5, at the same point


def test_without_a_chance_to_fail_there_is_nothing_to_draw():
    assert draw_failures(NAMES, np.ones(20_000), 3, seed=0).shape == (20_000, 0)

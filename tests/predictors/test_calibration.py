"""Measured spread: of known errors, with the noise of the labels taken out."""

import numpy as np
import pytest

from mfcp.predictors.calibration import LEAST_RELIABILITY_SD, calibrate


def test_it_finds_the_spread_that_errors_were_drawn_with():
    rng = np.random.default_rng(0)
    shape, R = (1, 2, 20_000), 40
    T, p = rng.lognormal(size=shape[1:]), rng.uniform(0.6, 0.9, shape[1:])
    shares = rng.binomial(R, p) / R
    log_t = np.log(T) + rng.normal(0, [[0.1], [0.4]], shape[1:])
    a = p + rng.normal(0, 0.05, shape[1:])
    found = calibrate(log_t[None], a[None], T, shares, np.full(shape[1:], R), np.ones(shape, bool))
    assert found.log_sd[0] == pytest.approx([0.1, 0.4], rel=0.02)
    assert found.a_sd[0] == pytest.approx([0.05, 0.05], rel=0.05)  # of the probability, not of the noisy share


def test_it_finds_what_a_tasks_clusters_do_not_share():
    """Errors drawn as a task's own, plus a cluster's own: the second is found, in one number for all clusters."""
    rng = np.random.default_rng(0)
    M, n = 3, 20_000
    T = rng.lognormal(size=(M, n))
    error = rng.normal(0, 0.5, n) + rng.normal(0, [[0.1], [0.2], [0.3]], (M, n))
    known = rng.random((1, M, n)) < 0.7
    found = calibrate(
        (np.log(T) + error)[None], np.full((1, M, n), 0.5), T, np.full((M, n), 0.5), np.full((M, n), 9), known
    )
    assert found.own_sd[0] == pytest.approx([np.sqrt((0.01 + 0.04 + 0.09) / 3)] * 3, rel=0.02)
    assert found.log_sd[0] == pytest.approx(np.sqrt(0.25 + np.array([0.01, 0.04, 0.09])), rel=0.02)


def test_tasks_of_one_cluster_say_nothing_of_what_is_shared():
    T = np.array([[1.0, 2.0, np.nan], [np.nan, np.nan, 3.0]])
    known = np.isfinite(T)[None]
    log_t = np.log(np.where(known, T, 1.0)) + 0.3
    found = calibrate(log_t, np.full((1, 2, 3), 0.5), T, np.full((2, 3), 0.5), np.full((2, 3), 9), known)
    assert found.own_sd == pytest.approx(found.log_sd)


def test_only_known_pairs_count_and_a_perfect_fit_is_not_believed():
    T, A = np.array([[1.0, np.nan, 2.0]]), np.array([[0.5, np.nan, 0.5]])
    known = np.array([[[True, False, True]]])
    log_t = np.log(np.array([[[1.0, 9.0, 2.0]]]))
    found = calibrate(log_t, np.full((1, 1, 3), 0.5), T, A, np.full((1, 3), 10), known)
    assert found.log_sd[0, 0] == 0.0
    assert found.a_sd[0, 0] == LEAST_RELIABILITY_SD

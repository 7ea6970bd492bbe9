"""Heads that few runs correct: they find what is there, doubt what runs leave open, and forgive an outlier."""

import numpy as np
import pytest

from mfcp.tasks.timing.linear_head import Head

COEFFICIENTS = np.array([1.0, -2.0, 0.5])


def columns(n, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, 3))


def head():
    return Head.start(columns(200), np.ones(3))


def effects(x):
    return 0.7 + (x - columns(200).mean(axis=0)) @ COEFFICIENTS


def test_runs_find_level_and_coefficients():
    x, unseen = columns(60, 1), columns(50, 2)
    found, sd = head().update(x, effects(x)).correct(unseen)
    assert found == pytest.approx(effects(unseen), abs=0.05)
    assert (sd < 0.15).all()


def test_nothing_is_added_before_a_run_and_doubt_shrinks_with_runs():
    x, unseen = columns(60, 1), columns(50, 2)
    doubts = [head().correct(unseen)] + [head().update(x[:n], effects(x)[:n]).correct(unseen) for n in (1, 5, 60)]
    assert (doubts[0][0] == 0).all()
    sd = [doubt[1].mean() for doubt in doubts]
    assert sd == sorted(sd, reverse=True)


def test_directions_in_which_runs_do_not_differ_stay_in_doubt():
    x = np.tile(head().centre, (30, 1))
    x[:, 0] += np.linspace(-1, 1, 30)
    taught = head().update(x, effects(x))
    away = head().centre + np.eye(3)
    _, sd = taught.correct(away)
    assert sd[0] < 0.3
    assert (sd[1:] > 0.9).all()


def test_a_run_that_is_off_by_a_factor_is_forgiven():
    x, unseen = columns(20, 1), columns(50, 2)
    y = effects(x)
    y[3] += np.log(8.0)
    squares = np.linalg.lstsq(np.column_stack([np.ones(20), x]), y, rcond=None)[0]
    plain = np.column_stack([np.ones(50), unseen]) @ squares
    found, _ = head().update(x, y).correct(unseen)
    assert np.abs(found - effects(unseen)).mean() < 0.2 * np.abs(plain - effects(unseen)).mean()


def test_the_interval_of_noisy_runs_covers():
    rng = np.random.default_rng(3)
    inside = []
    for seed in range(40):
        x, unseen = columns(15, seed), columns(40, 100 + seed)
        noise = 0.2 * rng.normal(size=55)
        found, sd = head().update(x, effects(x) + noise[:15]).correct(unseen)
        inside.append(np.abs(found - effects(unseen) - noise[15:]) < 1.645 * sd)
    assert 0.85 < np.mean(inside) < 0.97


def test_columns_of_a_narrow_width_move_little():
    x, unseen = columns(5, 1), columns(50, 2)
    wide, narrow = (
        Head.start(columns(200), np.full(3, w)).update(x, effects(x)).correct(unseen)[0] for w in (1.0, 0.01)
    )
    assert np.ptp(narrow) < 0.1 * np.ptp(wide)


def test_far_from_all_that_was_seen_the_correction_is_that_of_the_border():
    x = columns(60, 1)
    taught = head().update(x, effects(x))
    border, beyond = (taught.correct(head().centre + far * head().reach * np.eye(3)) for far in (1.0, 50.0))
    assert beyond[0] == pytest.approx(border[0])
    assert beyond[1] == pytest.approx(border[1])

"""When jobs have converged, and what their losses tell of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.simulator.qore.loss_curves import converged_at, remaining_epochs
from mfcp.simulator.qore.training_losses import TrainingLosses

EPOCH = np.arange(1.0, 201.0)
FAST, SLOW, NEVER = 2.0 / EPOCH**0.5 + 0.1, 3.0 * EPOCH**-0.8 + 0.3, np.exp(-0.05 * EPOCH[:60])
LOSSES = TrainingLosses((FAST, SLOW, NEVER), np.array([0.003, 0.005, 0.01]), np.array([2, 0, 1, 0]))


def test_jobs_end_when_their_own_losses_hardly_decline():
    fast, slow = converged_at(FAST, 0.003), converged_at(SLOW, 0.005)
    assert LOSSES.ends == pytest.approx([1.0, fast / 200, slow / 200, fast / 200])
    assert 0.2 < fast / 200 < 1


def test_what_is_left_is_all_that_is_allowed_and_then_what_a_curve_says():
    rows = np.array([1, 2, 0])
    assert LOSSES.left(rows, np.zeros(3)).tolist() == [1, 1, 1]
    assert LOSSES.left(rows[:1], np.array([59.5 / 200])) == pytest.approx([140.5 / 200])  # too few losses
    done = 70.25 / 200
    told = remaining_epochs(FAST[:70], 0.003, 200)
    assert LOSSES.left(rows[:1], np.array([done])) == pytest.approx([(told - 0.25) / 200])
    assert LOSSES.left(rows[2:], np.array([59.9 / 60])) == pytest.approx([0.01])  # never nothing


def test_falls_are_those_of_the_curve_over_the_largest_change_so_far():
    exact = TrainingLosses((1 / (0.2 * EPOCH + 1) + 0.0,), np.array([0.001]), np.array([0]), "inverse")
    seen = exact.curves[0]
    found = exact.falls(np.array([0]), np.array([50 / 200]), np.array([[0.0, 10 / 200, 1.0]]))[0]
    largest = seen[0] - seen[1]
    assert found == pytest.approx(np.array([0, seen[49] - seen[59], seen[49] - seen[199]]) / largest, rel=2e-2)
    young = exact.falls(np.array([0]), np.zeros(1), np.array([[0.0, 1 / 200, 2.0]]))[0]
    assert young == pytest.approx([0, 1, 0.9 / (1 - 1 / (1 + 9 / 200))])


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), form=st.sampled_from(["power", "inverse"]))
def test_any_losses_tell_something_that_can_be(seed, form):
    """Also those that rise, jump or stay."""
    rng = np.random.default_rng(seed)
    curves = tuple(
        np.maximum(rng.uniform(0.1, 5) + rng.normal(0, rng.choice([0, 0.3, 3]), size).cumsum(), 1e-9)
        for size in rng.integers(1, 50, 4)
    )
    losses = TrainingLosses(curves, rng.choice([0.0, 0.01, 0.3], 4), rng.integers(0, 4, 9), form)
    rows, done = np.arange(9), rng.uniform(0, 1, 9)
    left, ends = losses.left(rows, done), losses.ends
    assert ((left >= 0.01) & (left <= 1 - done + 0.01 + 1e-12)).all()
    assert ((ends > 0) & (ends <= 1)).all()
    falls = losses.falls(rows, done, np.sort(rng.uniform(0, 1, (9, 5)), axis=1))
    assert np.isfinite(falls).all()
    assert (falls >= 0).all()
    assert (np.diff(falls, axis=1) >= -1e-9).all()

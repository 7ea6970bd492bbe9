import numpy as np
import pytest

from mfcp.emulator.failures import Outcomes, memory_risk


def outcomes(**changes):
    fields = {
        "duration": np.array([[3600.0, 7200.0]]),
        "startup": np.array([0.0, 0.0]),
        "sigma": np.array([0.0, 0.0]),
        "start_failure": np.array([0.0, 0.1]),
        "error": np.array([0.2]),
        "memory": np.array([[0.0, 0.0]]),
        "hazard": np.array([1e-4, 1e-4]),
        "limit": np.array([1e5, 1e5]),
    }
    return Outcomes(**{**fields, **changes})


def test_reliability_without_noise_by_hand():
    duration, reliability = outcomes().expected()
    np.testing.assert_allclose(duration, [[3600, 7200]])
    np.testing.assert_allclose(reliability, [[0.8 * np.exp(-0.36), 0.9 * 0.8 * np.exp(-0.72)]])


def test_noise_has_mean_one_and_a_limit_cuts_the_slow_half():
    noisy = outcomes(sigma=np.array([0.2, 0.2]), hazard=np.array([1e-12, 1e-12]))
    np.testing.assert_allclose(noisy.expected()[0], [[3600, 7200]], rtol=1e-3)
    cut = outcomes(sigma=np.array([0.2, 0.2]), hazard=np.array([1e-12, 1e-12]), limit=np.array([3600.0, 1.0]))
    duration, reliability = cut.expected()
    assert reliability[0, 0] == pytest.approx(0.8 * 0.54, abs=0.01)
    assert duration[0, 0] < 3400
    assert reliability[0, 1] == 0
    assert np.isnan(duration[0, 1])


def test_drawn_runs_follow_the_expected_values():
    model = outcomes(sigma=np.array([0.1, 0.1]), memory=np.array([[0.05, 0.0]]), startup=np.array([60.0, 60.0]))
    index = np.zeros(20000, np.int64)
    runs = model.draw(index, index, 0.0, np.random.default_rng(0))
    duration, reliability = model.expected()
    done = runs["status"] == "succeeded"
    assert done.mean() == pytest.approx(reliability[0, 0], abs=0.015)
    assert runs.loc[done, "duration_s"].mean() == pytest.approx(duration[0, 0], rel=0.005)
    assert set(runs["status"]) == {"succeeded", "failed", "oom"}


def test_memory_risk_is_certain_above_and_negligible_far_below():
    risk = memory_risk(np.array([0.5, 0.93, 0.96, 1.1]), np.array(1.0))
    assert risk[0] < 1e-6
    assert risk[1] == pytest.approx(0.25)
    assert 0.4 < risk[2] < 0.5
    assert risk[3] == 1

import numpy as np
import pytest

from mfcp.errors import SettingsError
from mfcp.study.invented.samples import Fixed, LogNormal, SampleCounts

TASKS = [f"t{k}" for k in range(500)]
COPIES = [0] * 500
FLOPS = np.exp(np.random.default_rng(0).normal(20, 2, 500))


def test_fixed():
    np.testing.assert_array_equal(Fixed(value=7.0).draw(TASKS, COPIES, FLOPS, seed=0), 7.0)


def test_log_normal_has_the_stated_median_spread_and_exponent():
    samples = LogNormal(median=1e4, sigma=0.5, flops_exponent=0.8).draw(TASKS, COPIES, FLOPS, seed=0)
    slope, level = np.polyfit(np.log(FLOPS) - np.log(np.median(FLOPS)), np.log(samples), 1)
    assert slope == pytest.approx(-0.8, abs=0.05)
    assert level == pytest.approx(np.log(1e4), abs=0.1)
    noise = np.log(samples) + 0.8 * np.log(FLOPS)
    assert noise.std() == pytest.approx(0.5, rel=0.1)


def test_a_task_draws_the_same_whatever_else_is_there():
    counts = LogNormal(flops_exponent=0.0)
    all_ = counts.draw(TASKS, COPIES, FLOPS, seed=3)
    some = counts.draw(TASKS[100:110], COPIES[100:110], FLOPS[100:110], seed=3)
    np.testing.assert_array_equal(some, all_[100:110])
    assert not np.any(counts.draw(TASKS, COPIES, FLOPS, seed=4) == all_)
    assert not np.any(counts.draw(TASKS, [1] * 500, FLOPS, seed=3) == all_)


def test_a_task_of_unknown_flops_counts_as_the_median():
    counts = LogNormal(sigma=0.0, median=5.0, flops_exponent=1.0)
    np.testing.assert_allclose(counts.draw(["a", "b", "c"], [0] * 3, np.array([10, np.nan, 10.0]), seed=0), 5.0)
    np.testing.assert_allclose(counts.draw(["a"], [0], np.array([np.nan]), seed=0), 5.0)


def test_rules_are_parsed_by_kind():
    assert SampleCounts.parse({"kind": "log_normal", "sigma": 0.1}) == LogNormal(sigma=0.1)
    with pytest.raises(SettingsError, match="unknown key; remove it"):
        SampleCounts.parse({"kind": "fixed", "median": 1})

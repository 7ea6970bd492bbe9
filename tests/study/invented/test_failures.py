import numpy as np
import pytest

from mfcp.study.invented.failures import FailureModel, emulate_failures, memory_pressure


def times(clusters=6, tasks=400, seed=0):
    rng = np.random.default_rng(seed)
    T = np.exp(rng.normal(6, 0.7, tasks) + rng.normal(0, 0.2, (clusters, 1)))
    return np.where(rng.random(T.shape) < 0.1, np.nan, T)


def test_mean_and_spread_over_clusters_are_as_documented():
    pressure = np.random.default_rng(1).normal(size=400)
    emulated = emulate_failures(FailureModel(), times(), pressure, np.full(6, 2.0**34), seed=0)
    assert np.nanmean(emulated.probability) == pytest.approx(0.88, abs=1e-6)
    by_cluster = np.nanmean(emulated.probability, axis=1)
    assert 0.68 < by_cluster.min() < 0.82
    assert 0.94 < by_cluster.max() < 0.99
    assert np.nanmean(emulated.probability, axis=0).std() > 0.02  # tasks matter too


def test_unknown_pairs_stay_unknown():
    T = times()
    emulated = emulate_failures(FailureModel(runs=7), T, np.zeros(400), np.full(6, np.nan), seed=0)
    known = np.isfinite(T)
    np.testing.assert_array_equal(np.isfinite(emulated.share), known)
    np.testing.assert_array_equal(np.isfinite(emulated.probability), known)
    np.testing.assert_array_equal(emulated.runs, np.where(known, 7, 0))
    np.testing.assert_allclose(emulated.share[known] * 7, np.round(emulated.share[known] * 7))


def test_longer_runs_more_pressure_and_less_memory_fail_more():
    T = np.array([[10.0, 20, 40, 80]] * 2)
    model = FailureModel(hazard_spread=0.0, pressure=0.0)
    longer = emulate_failures(model, T, np.zeros(4), np.full(2, np.nan), seed=0).probability
    assert np.all(np.diff(longer[0]) < 0)
    same = np.full((2, 4), 10.0)
    model = FailureModel(hazard_spread=0.0)
    by_pressure = emulate_failures(model, same, np.array([-1.0, 0, 1, 2]), np.full(2, np.nan), seed=0).probability
    assert np.all(np.diff(by_pressure, axis=1) < 0)
    memory = np.array([2.0**33, 2.0**37])
    spread = [emulate_failures(model, same, np.array([-1.0, 0, 1, 2]), memory, seed=s).probability for s in range(5)]
    assert all(np.ptp(p[0]) > np.ptp(p[1]) for p in spread)


def test_shares_are_draws_of_the_probabilities():
    emulated = emulate_failures(FailureModel(runs=1000), times(), np.zeros(400), np.full(6, np.nan), seed=0)
    known = np.isfinite(emulated.share)
    p, share = emulated.probability[known], emulated.share[known]
    z = (share - p) / np.sqrt(p * (1 - p) / 1000)
    assert z.std() == pytest.approx(1.0, abs=0.05)
    assert abs(z.mean()) < 0.1


def test_the_seed_decides():
    how = (FailureModel(), times(), np.zeros(400), np.full(6, np.nan))
    first, again, other = (emulate_failures(*how, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.share, again.share)
    assert np.nanmax(np.abs(first.probability - other.probability)) > 0.01


def test_memory_pressure_is_the_mean_of_what_is_known():
    unknown = np.full(3, np.nan)
    np.testing.assert_array_equal(memory_pressure({"param_count": unknown, "activations": unknown}), 0.0)
    pressure = memory_pressure({"param_count": np.array([1e6, 1e7, 1e8, 1e9]), "activations": np.array([np.nan] * 4)})
    assert pressure.mean() == pytest.approx(0)
    assert pressure.std() == pytest.approx(1)
    assert np.all(np.diff(pressure) > 0)

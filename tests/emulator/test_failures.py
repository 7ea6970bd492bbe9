import numpy as np
import pytest

from mfcp.emulator.failures import Outcomes, draw_outages, memory_risk, until_outage

HOUR = 3600.0


def outcomes(**changes):
    fields = {
        "duration": np.array([[3600.0, 7200.0]]),
        "startup": np.array([0.0, 0.0]),
        "sigma": np.array([0.0, 0.0]),
        "job_failure": np.array([0.2, 0.28]),
        "difficulty": np.array([1.0]),
        "memory": np.array([[0.0, 0.0]]),
        "hazard": np.array([1e-4, 1e-4]),
        "outage_rate": np.array([0.0, 0.0]),
        "outage_mean": np.array([HOUR, HOUR]),
        "limit": np.array([1e5, 1e5]),
    }
    return Outcomes(**{**fields, **changes})


def test_reliability_without_noise_by_hand():
    duration, reliability = outcomes().expected()
    np.testing.assert_allclose(duration, [[3600, 7200]])
    np.testing.assert_allclose(reliability, [[0.8 * np.exp(-0.36), 0.72 * np.exp(-0.72)]])


def test_a_difficult_task_fails_as_often_as_two_usual_ones():
    reliability = outcomes(difficulty=np.array([2.0]), hazard=np.full(2, 1e-12)).expected()[1]
    np.testing.assert_allclose(reliability, [[0.8**2, 0.72**2]])


def test_outages_take_the_share_of_time_that_they_last_and_those_that_begin_during_the_run():
    reliability = outcomes(outage_rate=np.full(2, 1e-5), hazard=np.full(2, 1e-12)).expected()[1]
    np.testing.assert_allclose(reliability[0, 0], 0.8 * np.exp(-1e-5 * HOUR) * np.exp(-1e-5 * 3600))


def test_noise_has_mean_one_and_a_limit_cuts_the_slow_half():
    noisy = outcomes(sigma=np.array([0.2, 0.2]), hazard=np.array([1e-12, 1e-12]))
    np.testing.assert_allclose(noisy.expected()[0], [[3600, 7200]], rtol=1e-3)
    cut = outcomes(sigma=np.array([0.2, 0.2]), hazard=np.array([1e-12, 1e-12]), limit=np.array([3600.0, 1.0]))
    duration, reliability = cut.expected()
    assert reliability[0, 0] == pytest.approx(0.8 * 0.54, abs=0.01)
    assert duration[0, 0] < 3400
    assert reliability[0, 1] == 0
    assert np.isnan(duration[0, 1])


def test_a_pair_without_a_time_can_neither_run_nor_succeed():
    duration, reliability = outcomes(duration=np.array([[3600.0, np.nan]])).expected()
    assert np.isnan(duration[0, 1])
    assert reliability[0, 1] == 0
    assert reliability[0, 0] > 0


def test_drawn_runs_follow_the_expected_values():
    model = outcomes(sigma=np.array([0.1, 0.1]), memory=np.array([[0.05, 0.0]]), startup=np.array([60.0, 60.0]))
    index = np.zeros(20000, np.int64)
    runs = model.draw(index, index, 0.0, np.random.default_rng(0))
    duration, reliability = model.expected()
    done = runs["status"] == "succeeded"
    assert done.mean() == pytest.approx(reliability[0, 0], abs=0.015)
    assert runs.loc[done, "duration_s"].mean() == pytest.approx(duration[0, 0], rel=0.005)
    assert set(runs["status"]) == {"succeeded", "failed", "oom"}


def test_drawn_outages_end_as_many_runs_as_expected():
    """Over a long history the runs that outages spoil are the share that the formula says."""
    model = outcomes(outage_rate=np.full(2, 1e-4), job_failure=np.zeros(2), hazard=np.full(2, 1e-12))
    rng = np.random.default_rng(1)
    length = 3e8
    starts, ends = draw_outages(1e-4, HOUR, length, rng)
    moment = rng.random(40000) * length
    index = np.zeros(len(moment), np.int64)
    runs = model.draw(index, index, 0.0, rng, until_outage=until_outage(moment, starts, ends))
    assert (runs["status"] == "succeeded").mean() == pytest.approx(model.expected()[1][0, 0], abs=0.01)
    assert set(runs["error"]) == {"", "outage"}
    assert (runs["duration_s"] <= 3600).all()


def test_outages_are_apart_and_in_order_and_waits_end_at_the_next():
    starts, ends = draw_outages(1e-3, 2000.0, 1e6, np.random.default_rng(0))
    assert len(starts) > 50
    assert (starts < ends).all()
    assert (ends[:-1] < starts[1:]).all()
    wait = until_outage(np.array([starts[0] - 5, starts[3] + 1e-6, ends[-1] + 1]), starts, ends)
    np.testing.assert_allclose(wait, [5, 0, np.inf])
    none = draw_outages(0.0, 10.0, 1e6, np.random.default_rng(0))
    assert until_outage(np.array([1.0]), *none) == np.inf


def test_a_slowdown_and_a_hazard_act_from_their_run_on():
    model = outcomes(job_failure=np.zeros(2), hazard=np.full(2, 1e-5))
    index = np.zeros(4000, np.int64)
    half = np.arange(4000) >= 2000
    runs = model.draw(
        index, index, 0.0, np.random.default_rng(0), slowdown=np.where(half, 1.5, 1.0), risk=np.where(half, 20.0, 1.0)
    )
    done = runs["status"] == "succeeded"
    np.testing.assert_allclose(runs["duration_s"][done & half], 5400)
    np.testing.assert_allclose(runs["noise"][done & half], 1.5)
    assert done[~half].mean() == pytest.approx(np.exp(-0.036), abs=0.02)
    assert done[half].mean() == pytest.approx(np.exp(-20 * 0.054), abs=0.03)
    later = model.changed(np.array([1.5, 1.0]), np.array([20.0, 1.0])).expected()
    np.testing.assert_allclose(later[0], [[5400, 7200]])
    np.testing.assert_allclose(later[1], [[np.exp(-20 * 0.054), np.exp(-0.072)]])


def test_memory_risk_is_certain_above_and_negligible_far_below():
    risk = memory_risk(np.array([0.5, 0.93, 0.96, 1.1]), np.array(1.0))
    assert risk[0] < 1e-6
    assert risk[1] == pytest.approx(0.25)
    assert 0.4 < risk[2] < 0.5
    assert risk[3] == 1

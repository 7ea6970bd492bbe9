"""The reference solve: gamma binds in the stated share of rounds, and the unit is the fastest plan's makespan."""

import numpy as np
import pytest
from toy import toy_setting, toy_study

from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.problem import makespan, reliability
from mfcp.study.reference import fastest, solved_setting, with_gamma
from mfcp.study.setting import RoundSettings


def time_optimal(problem):
    """(R, N) the fastest plan of each round by enumeration, of equally fast ones the most reliable; its makespan."""
    plans = all_plans(problem.clusters, problem.tasks)[0]
    spans = np.array([[makespan(p, T) for p in plans] for T in problem.T])
    reached = np.array([[reliability(p, A) for p in plans] for A in problem.A])
    equal = spans <= spans.min(axis=1, keepdims=True) * (1 + 1e-12)
    return plans[np.where(equal, reached, -1.0).argmax(axis=1)], spans.min(axis=1)


@pytest.mark.parametrize("quantile", [0.2, 0.5])
def test_gamma_binds_in_that_share_of_the_validation_rounds(quantile):
    settings = RoundSettings(tasks=4, validation_rounds=40, gamma_quantile=quantile)
    setting = toy_setting(settings=settings)
    rounds = setting.rounds("validation", 40)
    problem = setting.problem(rounds)
    reached = reliability(time_optimal(problem)[0], problem.A).reshape(2, 40)
    np.testing.assert_allclose(setting.gamma, np.quantile(reached, quantile, axis=1))


def test_until_it_is_solved_a_setting_has_no_gamma():
    setting = toy_study().setting("A", RoundSettings(tasks=4, validation_rounds=40), price=4.0)
    assert np.isnan(setting.gamma).all()
    np.testing.assert_array_equal(with_gamma(setting).gamma, toy_setting().gamma)
    assert solved_setting(toy_study(), "B", setting.matching, price=4.0).name == "B"


def test_the_unit_is_the_least_makespan_that_holds_gamma_and_is_solved_once():
    setting = toy_setting()
    unit = fastest(setting, "test", 6)
    assert unit is fastest(setting, "test", 6)
    problem = setting.problem(setting.rounds("test", 6))
    assert (unit.ravel() >= time_optimal(problem)[1] * (1 - 1e-12)).all()
    plans = all_plans(problem.clusters, problem.tasks)[0]
    for T, A, gamma, value in zip(problem.T, problem.A, problem.gamma, unit.ravel(), strict=True):
        good = [makespan(p, T) for p in plans if reliability(p, A) >= gamma]
        if np.isfinite(min(good, default=np.inf)):
            assert value == pytest.approx(min(good))

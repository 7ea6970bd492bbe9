"""Expected-cost matching against Monte Carlo, against certainty, and local search against enumeration."""

import numpy as np
import pytest

from mfcp.matching import expected
from mfcp.matching.expected import Moments, expected_maximum, expected_shortfall, least_expected_cost
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.regret import penalised_cost


def moments(seed=0, rounds=20, clusters=3, tasks=5, spread=0.3, zeta=None):
    rng = np.random.default_rng(seed)
    shape = (rounds, clusters, tasks)
    time = rng.lognormal(size=shape)
    allowed = rng.random(shape) < 0.9
    allowed[:, 0] = True
    return Moments(
        time=time,
        time_variance=(spread * time) ** 2,
        reliability=rng.uniform(0.6, 1, shape),
        reliability_variance=np.full(shape, (spread / 10) ** 2),
        gamma=np.full(rounds, 0.85),
        allowed=allowed,
        zeta=zeta,
    )


def test_clark_is_exact_for_two_normal_loads_and_close_for_more():
    rng = np.random.default_rng(0)
    mean, variance = np.array([3.0, 2.5, 2.8]), np.array([0.5, 1.0, 0.2])
    draws = rng.normal(mean, np.sqrt(variance), (400_000, 3))
    for count, tolerance in ((2, 4e-3), (3, 2e-2)):
        estimate = expected_maximum(mean[None, :count, None], variance[None, :count, None])[0, 0]
        assert estimate == pytest.approx(draws[:, :count].max(axis=1).mean(), abs=tolerance)


def test_shortfall_matches_monte_carlo_and_its_certain_limit():
    rng = np.random.default_rng(0)
    draws = rng.normal(0.83, 0.02, 400_000)
    value = expected_shortfall(np.array(0.83), np.array(0.02**2), np.array(0.85))
    assert value == pytest.approx(np.maximum(0.85 - draws, 0).mean(), abs=1e-4)
    assert expected_shortfall(np.array(0.83), np.array(0.0), np.array(0.85)) == pytest.approx(0.02)
    assert expected_shortfall(np.array(0.9), np.array(1e-8), np.array(0.85)) == pytest.approx(0.0, abs=1e-300)


def test_without_uncertainty_it_is_the_least_penalised_plan():
    certain = moments(spread=0.0)
    problem = MatchingProblem(certain.time, certain.reliability, certain.gamma, certain.allowed)
    unit = solve_or_fall_back(problem).makespan
    np.testing.assert_array_equal(least_expected_cost(certain, price=4.0), solve(problem, price=4.0 * unit).assignment)


def test_over_draws_from_the_belief_it_costs_less_than_the_point_plan():
    rng = np.random.default_rng(3)
    m = moments(rounds=400, spread=0.5)
    point = solve_or_fall_back(MatchingProblem(m.time, m.reliability, m.gamma, m.allowed))
    chosen = least_expected_cost(m, price=4.0)
    costs = []
    for _ in range(30):
        time = np.maximum(rng.normal(m.time, np.sqrt(m.time_variance)), 1e-3)
        reliability = np.clip(rng.normal(m.reliability, np.sqrt(m.reliability_variance)), 0, 1)
        drawn = MatchingProblem(time, reliability, m.gamma, m.allowed)
        costs.append([penalised_cost(p, drawn, price=4.0, unit=point.makespan) for p in (chosen, point.assignment)])
    own, other = np.mean(costs, axis=(0, 2))
    assert own < 0.97 * other


@pytest.mark.parametrize("zeta", [None, np.linspace(1.0, 0.6, 6)[None].repeat(3, axis=0)])
def test_local_search_is_near_enumeration_and_never_forbidden(monkeypatch, zeta):
    m = moments(rounds=60, zeta=zeta)
    best = least_expected_cost(m, price=4.0)
    start = MatchingProblem(m.time, m.reliability, m.gamma, m.allowed, zeta)
    point = solve_or_fall_back(start)
    found = expected._local_search(m, point.assignment, point.makespan, 4.0)

    def cost(plan):
        onehot = (plan[:, None] == np.arange(3)[:, None]).astype(float)[..., None, :]
        totals = [(np.where(np.isfinite(c), c, 0)[..., None, :] * onehot).sum(-1) for c in expected._channels(m)]
        return expected._score(totals, m, point.makespan, 4.0)[:, 0]

    assert np.take_along_axis(m.allowed, found[:, None], axis=1).all()
    assert (cost(found) >= cost(best) - 1e-9).all()
    assert (cost(found) <= cost(point.assignment) + 1e-9).all()
    assert np.mean(cost(found) <= cost(best) + 1e-9) > 0.8
    assert cost(found).mean() <= 1.03 * cost(best).mean()

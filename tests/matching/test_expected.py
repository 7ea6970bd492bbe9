"""Expected-cost matching against Monte Carlo, against certainty, and local search against enumeration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matching.uncertain import cost_of, curve, moments

from mfcp.matching import expected
from mfcp.matching.expected import (
    Moments,
    cost_bound,
    expected_plans,
    least_expected_cost,
    least_expected_makespan,
)
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import MatchingProblem, makespan
from mfcp.matching.regret import penalised_cost


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


@pytest.mark.parametrize("zeta", [None, curve(3, 7)])
def test_a_backlog_delays_every_cluster_that_has_a_task(zeta):
    """The search, which has no bound to stop at, against every plan of 3^7 scored by another formula and one by one."""
    m = moments(rounds=12, tasks=7, zeta=zeta, backlog=1.5)
    unit = solve_or_fall_back(m.point()).makespan
    every = np.array(list(itertools.product(range(3), repeat=7)))
    allowed = [m.allowed[b][every, np.arange(7)].all(axis=1) for b in range(12)]
    costs = np.stack([cost_of(m, np.broadcast_to(plan, (12, 7)), unit) for plan in every], axis=1)
    least = np.where(allowed, costs, np.inf).min(axis=1)
    found = expected._improved(m, solve_or_fall_back(m.point()).assignment, unit, np.full(12, 4.0), None)
    np.testing.assert_allclose(found[1], cost_of(m, found[0], unit), rtol=1e-12)
    assert (found[1] >= least - 1e-12).all()
    assert np.isclose(found[1], least, rtol=1e-9).mean() > 0.9
    np.testing.assert_allclose(expected_plans(m, price=4.0).cost, least, rtol=1e-9)
    plan = expected_plans(m, price=4.0).assignment
    span = makespan(plan, np.where(m.allowed, m.time, 1.0), zeta, m.backlog)
    certain = replace(m, time_variance=0 * m.time, reliability_variance=0 * m.time, gamma=np.zeros(12))
    np.testing.assert_allclose(cost_of(certain, plan, np.ones(12)), span, rtol=1e-9)


@pytest.mark.parametrize("tasks", [6, 40, 250])
def test_no_backlog_is_a_backlog_of_zero_and_a_huge_one_closes_a_cluster(tasks):
    m = moments(rounds=3, clusters=4, tasks=tasks)
    without, none = expected_plans(m, price=4.0), expected_plans(replace(m, backlog=np.zeros((3, 4))), price=4.0)
    # Other engines give the plans to start from, and with them the unit.
    np.testing.assert_allclose(cost_of(m, none.assignment, without.unit), without.cost, rtol=0.02)
    busy = replace(m, backlog=np.array([[0.0, 1e6, 0.0, 0.0]]).repeat(3, axis=0))
    closed = m.allowed.copy()
    closed[:, 1] = False
    plan, shut = expected_plans(busy, price=4.0), expected_plans(replace(m, allowed=closed), price=4.0)
    assert not (plan.assignment == 1).any()
    np.testing.assert_allclose(plan.cost * plan.unit, shut.cost * shut.unit, rtol=0.05)


@pytest.mark.parametrize("zeta", [None, curve(3, 20)])
def test_rounds_of_twenty_tasks_cost_less_than_their_point_plans_and_more_than_the_bound(zeta):
    m = moments(rounds=20, tasks=20, zeta=zeta)
    found = expected_plans(m, price=4.0)
    point = solve_or_fall_back(m.point())
    assert (found.cost <= cost_of(m, point.assignment, found.unit) + 1e-9).all()
    assert found.cost.mean() < 0.98 * cost_of(m, point.assignment, found.unit).mean()
    assert (cost_bound(m, found.unit, price=4.0) <= found.cost).all()
    np.testing.assert_array_equal(least_expected_cost(m.take(slice(3, 5)), price=4.0)[0], found.assignment[3])


@pytest.mark.parametrize("zeta", [None, curve(10, 400)])
def test_rounds_of_hundreds_of_tasks_start_from_certified_plans(zeta):
    rng = np.random.default_rng(5)
    shape = (1, 10, 400)
    time = rng.lognormal(size=shape)
    deviation = np.full(shape, 0.05)
    m = Moments(
        time, (0.3 * time) ** 2, rng.uniform(0.6, 1, shape), deviation**2, np.array([0.9]), np.ones(shape, bool), zeta
    )
    found = expected_plans(m, price=4.0)
    point = solve_or_fall_back(m.point())
    bound = cost_bound(m, found.unit, price=4.0)
    np.testing.assert_allclose(found.cost, cost_of(m, found.assignment, found.unit), rtol=1e-9)
    assert found.cost < cost_of(m, point.assignment, found.unit)
    assert bound <= found.cost
    assert found.cost <= 1.12 * bound


@pytest.mark.parametrize("tasks", [5, 16, 250])
def test_the_promise_is_kept_as_often_as_stated(tasks):
    """Beliefs that are exactly right: the share of rounds below gamma is alpha at most, within binomial error."""
    rounds, alpha = (1, 0.1) if tasks == 250 else (40, 0.2)
    rng = np.random.default_rng(tasks)
    m = moments(seed=tasks, rounds=rounds, tasks=tasks, spread=0.5)
    m = replace(m, gamma=0.97 * m.point().reachable_gamma() - 0.01)
    plan, held = least_expected_makespan(m, alpha=alpha)
    assert np.take_along_axis(m.allowed, plan[:, None], axis=1).all()
    assert held.all()
    draws = 4000 // rounds * 10
    mean, deviation = (
        np.take_along_axis(v, plan[:, None], axis=1)[:, 0] for v in (m.reliability, np.sqrt(m.reliability_variance))
    )
    drawn = rng.normal(mean, deviation, (draws, rounds, tasks)).mean(axis=-1)
    missed = (drawn < m.gamma).mean(axis=0)
    assert (missed <= alpha + 4 * np.sqrt(alpha * (1 - alpha) / draws)).all()
    point = np.take_along_axis(m.reliability, solve_or_fall_back(m.point()).assignment[:, None], axis=1)[:, 0]
    assert missed.max() > 0.2 * alpha  # the constraint is used, not just kept
    assert (rng.normal(point, deviation, (draws, rounds, tasks)).mean(axis=-1) < m.gamma).mean() > 1.3 * missed.mean()


def test_an_even_chance_without_uncertainty_is_the_point_plan():
    certain = moments(spread=0.0, tasks=6)
    plan, held = least_expected_makespan(certain, alpha=0.5)
    point = solve_or_fall_back(certain.point())
    np.testing.assert_array_equal(held, point.status == "optimal")
    np.testing.assert_array_equal(plan, point.assignment)

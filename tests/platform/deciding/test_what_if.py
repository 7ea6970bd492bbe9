"""What a move would change, and what is scarce: against differences."""

from dataclasses import replace

import numpy as np
import pytest
from platform_round import belief, cost, explained, moved, names, planned, unit_of

from mfcp.matching.problem import MatchingProblem
from mfcp.matching.speedup import SpeedUp
from mfcp.platform.deciding.what_if import relaxed_prices
from mfcp.rules.expected_cost import moments_of

ZETA = SpeedUp(0.6, 2.0).table(4, 7)


def changed(believed, name, cluster, task, value):
    values = getattr(believed, name).copy()
    values[0, cluster, task] = value
    return replace(believed, **{name: values})


@pytest.mark.parametrize("backlog", [None, np.array([[900.0, 0.0, 300.0, 50.0]])])
@pytest.mark.parametrize("seed", range(4))
def test_a_move_pays_just_beyond_its_factor_and_not_just_before(seed, backlog):
    """Re-evaluated from the beliefs with that one number changed; the plan and its unit stay."""
    believed = belief(seed=seed, gamma=0.95, backlog=backlog)
    plan = planned(believed)
    unit = unit_of(believed)
    now, _ = cost(believed, plan, unit)
    factors = needs = never = 0
    for j, told in enumerate(explained(believed, plan)):
        for option in told.options:
            i = int(option.cluster_id[1:])
            if option.chosen or option.cost_change is None:
                continue
            there, time, success = moved(plan, j, i), believed.T[0, i, j], believed.A[0, i, j]

            def after(name, value, there=there, i=i, j=j):
                return cost(changed(believed, name, i, j, value), there, unit)[0]

            if option.time_factor is None:
                assert after("T", 1e-9 * time) >= now - 1e-6
                never += 1
            elif option.cost_change >= 0:
                assert after("T", (0.999 * option.time_factor - 4e-6) * time) < now
                assert after("T", (1.001 * option.time_factor + 4e-6) * time) > now  # 18 halvings
                factors += 1
            if option.reliability_needed is None:
                assert after("A", 1.0) >= now - 1e-6
            elif option.cost_change >= 0:
                assert success <= option.reliability_needed <= 1
                assert after("A", option.reliability_needed + 1e-4) < now
                assert after("A", option.reliability_needed - 1e-4) > now
                needs += 1
    assert factors > 3
    assert needs + never > 0


def test_prices_are_the_derivatives_of_the_relaxed_value():
    rng = np.random.default_rng(3)
    T, A = rng.lognormal(5, 0.5, (1, 4, 9)), rng.uniform(0.8, 1, (1, 4, 9))
    allowed = rng.random(T.shape) < 0.9
    allowed[:, 0] = True
    backlog, gamma, charge = np.array([[5.0, 1.0, 20.0, 10.0]]), 0.93, 5000.0
    clusters = ["a", "b", "c", "d"]

    def solved(backlog=backlog, gamma=gamma, price=charge):
        problem = MatchingProblem(T, A, [gamma], allowed, backlog=backlog)
        return relaxed_prices(problem, price=price, cluster_id=clusters)

    prices = solved()
    assert sum(prices.cluster.values()) == pytest.approx(1)
    for i, name in enumerate(clusters):
        step = np.eye(4)[None, i] * 1e-3
        slope = (solved(backlog + step).value - solved(backlog - step).value) / 2e-3
        assert prices.cluster[name] == pytest.approx(slope, abs=1e-6)
    slope = (solved(gamma=gamma + 1e-6).value - solved(gamma=gamma - 1e-6).value) / 2e-6
    assert slope > 0
    assert prices.reliability == pytest.approx(slope, rel=1e-5)
    # A price below that makes missing reliability the cheaper way, and becomes the price.
    assert solved(price=0.9 * slope).reliability == pytest.approx(0.9 * slope)


def test_prices_under_parallel_execution_take_the_lowest_factor():
    believed = belief(zeta=ZETA)
    point = moments_of(believed, 0.0).point()
    shared = relaxed_prices(point, price=1e4, cluster_id=names(believed)["cluster_id"])
    alone = MatchingProblem(point.T, point.A, point.gamma, point.allowed)
    apart = relaxed_prices(alone, price=1e4 / ZETA.min(), cluster_id=names(believed)["cluster_id"])
    assert shared.value == pytest.approx(ZETA[:, 1:].min() * apart.value)

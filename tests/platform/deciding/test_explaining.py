"""Moves against the plan's cost written out anew, prices against finite differences, words against numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.matching.normal import expected_maximum, expected_shortfall
from mfcp.matching.problem import MatchingProblem, makespan, reliability
from mfcp.matching.regret import penalised_cost
from mfcp.matching.speedup import SpeedUp
from mfcp.platform.deciding.explaining import explain
from mfcp.platform.deciding.what_if import relaxed_prices
from mfcp.rules.base import Belief
from mfcp.rules.expected_cost import ExpectedCost, moments_of

PRICE = 4.0


def belief(clusters=4, tasks=7, seed=0, spread=0.3, gamma=0.92, zeta=None):
    rng = np.random.default_rng(seed)
    shape = (1, clusters, tasks)
    T = rng.lognormal(6, 0.5, (1, 1, tasks)) * rng.lognormal(0, 0.4, shape)
    allowed = rng.random(shape) < 0.85
    allowed[:, 0] = True
    sd, a_sd = np.full(shape, spread), np.full(shape, spread / 10)
    return Belief(T, rng.uniform(0.8, 1, shape), sd, a_sd, np.array([gamma]), allowed, zeta)


def planned(believed):
    return ExpectedCost().plan(believed, parameter=0.0, price=PRICE)[0]


def names(believed):
    _, clusters, tasks = believed.T.shape
    return {"cluster_id": [f"c{i}" for i in range(clusters)], "task_id": [f"t{j}" for j in range(tasks)]}


def explained(believed, plan, **how):
    return explain(believed, plan, **names(believed), price=PRICE, **how)


def cost(believed, plan, unit):
    """Expected cost of one plan and its expected makespan, one cluster after another."""
    moments = moments_of(believed, 0.0)
    own = [plan == i for i in range(believed.T.shape[1])]
    factor = [1.0 if believed.zeta is None else believed.zeta[i, mine.sum()] for i, mine in enumerate(own)]
    loads = [f * moments.time[0, i, mine].sum() for i, (f, mine) in enumerate(zip(factor, own, strict=True))]
    spread = [
        f**2 * moments.time_variance[0, i, mine].sum() for i, (f, mine) in enumerate(zip(factor, own, strict=True))
    ]
    span = float(expected_maximum(np.array(loads)[None, :, None], np.array(spread)[None, :, None])[0, 0])
    each = np.arange(len(plan))
    missing = expected_shortfall(
        moments.reliability[0, plan, each].mean() - moments.gamma[0],
        np.sqrt(moments.reliability_variance[0, plan, each].sum()) / len(plan),
    )
    return span / unit + PRICE * float(missing), span


def unit_of(believed, plan):
    point = moments_of(believed, 0.0).point()
    return float(makespan(plan, point.T[0], point.zeta))


def moved(plan, task, cluster):
    return np.where(np.arange(len(plan)) == task, cluster, plan)


ZETA = SpeedUp(0.6, 2.0).table(4, 7)


@pytest.mark.parametrize("kind", ["certain", "uncertain", "parallel"])
def test_a_move_changes_what_the_explanation_says(kind):
    believed = belief(spread=0.0 if kind == "certain" else 0.3, zeta=ZETA if kind == "parallel" else None)
    plan = planned(believed)
    unit = unit_of(believed, plan)
    now, span = cost(believed, plan, unit)
    seen = 0
    for j, told in enumerate(explained(believed, plan)):
        assert (told.task_id, told.cluster_id) == (f"t{j}", f"c{plan[j]}")
        for option in told.options:
            i = int(option.cluster_id[1:])
            if not option.allowed:
                assert option.cost_change is None
                continue
            then, new_span = cost(believed, moved(plan, j, i), unit)
            assert option.makespan_change == pytest.approx(new_span - span, abs=1e-8 * span)
            assert option.cost_change == pytest.approx(then - now, abs=1e-9)
            A = believed.A[0]
            expected = reliability(moved(plan, j, i), A) - reliability(plan, A)
            assert option.reliability_change == pytest.approx(float(expected), abs=1e-12)
            seen += 1
    assert seen > 15


def test_without_spread_the_cost_is_the_penalised_cost():
    believed = belief(spread=0.0)
    plan = planned(believed)
    unit, problem = unit_of(believed, plan), believed.problem()
    now = penalised_cost(plan[None], problem, price=PRICE, unit=unit)[0]
    for j, told in enumerate(explained(believed, plan)):
        for option in told.options:
            if option.allowed:
                there = moved(plan, j, int(option.cluster_id[1:]))
                then = penalised_cost(there[None], problem, price=PRICE, unit=unit)[0]
                assert option.cost_change == pytest.approx(then - now, abs=1e-9)


def changed(believed, name, cluster, task, value):
    values = getattr(believed, name).copy()
    values[0, cluster, task] = value
    return replace(believed, **{name: values})


@pytest.mark.parametrize("seed", range(4))
def test_a_move_pays_just_beyond_its_factor_and_not_just_before(seed):
    """Re-evaluated from the beliefs with that one number changed; the plan and its unit stay."""
    believed = belief(seed=seed, gamma=0.95)
    plan = planned(believed)
    unit = unit_of(believed, plan)
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
                assert after("T", 0.999 * option.time_factor * time) < now
                assert after("T", 1.001 * option.time_factor * time) > now
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


def test_a_worse_plan_is_told_that_a_move_pays():
    believed = belief()
    plan = np.zeros(7, np.int64)  # everything on one cluster
    believed = replace(believed, allowed=np.ones_like(believed.allowed))
    told = explained(believed, plan)[0]
    best = told.options[0]
    assert not best.chosen
    assert best.cost_change < 0
    assert best.time_factor == 1
    assert best.reliability_needed == pytest.approx(best.reliability)
    assert "pays as it is" in best.text


def test_options_are_ranked_and_those_that_cannot_be_had_come_last():
    believed, offline = belief(), 3
    without = replace(believed, allowed=believed.allowed & (np.arange(4) != offline)[:, None])
    plan = planned(without)
    told = explained(believed, plan, online=[f"c{i}" for i in range(4) if i != offline], tasks=["t2"])
    assert [one.task_id for one in told] == ["t2"]
    options = told[0].options
    assert len(options) == 4
    away = next(o for o in options if o.cluster_id == f"c{offline}")
    assert not away.online
    assert away.cost_change is None
    rank = [(not o.allowed, not o.online, o.cost_change or 0.0) for o in options]
    assert rank == sorted(rank)


def test_intervals_and_json_and_text_agree():
    believed = belief()
    told = explained(believed, planned(believed))[0]
    content = json.loads(json.dumps([vars(option) for option in told.options], allow_nan=False))
    assert content[0]["cluster_id"] == told.options[0].cluster_id
    for option in told.options:
        if option.allowed:
            ratio = np.exp(1.96 * 0.3)
            assert option.seconds_high / option.seconds == pytest.approx(ratio, rel=1e-4)
            assert option.seconds / option.seconds_low == pytest.approx(ratio, rel=1e-4)
            assert 0 <= option.reliability_low <= option.reliability <= option.reliability_high <= 1
            assert f"{option.reliability:.3f}" in told.text
    assert told.text.splitlines()[0] == f"t0 → {told.cluster_id}"
    assert len(told.text.splitlines()) == 1 + 4 + 2
    assert told.text.count("chosen") == 1


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


def test_what_cannot_be_explained_is_refused():
    believed = belief()
    plan = planned(believed)
    with pytest.raises(DataError, match=r"no task 't9' in this round of 7"):
        explained(believed, plan, tasks=["t9"])
    with pytest.raises(DataError, match=r"the plan has task 't0' on"):
        explained(believed, plan, online=[f"c{i}" for i in range(4) if i != plan[0]])

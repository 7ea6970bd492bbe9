"""Moves against the plan's cost written out anew, prices against finite differences, words against numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from platform_round import PRICE, belief, cost, explained, moved, planned, unit_of

from mfcp.errors import DataError
from mfcp.matching.problem import reliability
from mfcp.matching.regret import penalised_cost
from mfcp.matching.speedup import SpeedUp

ZETA = SpeedUp(0.6, 2.0).table(4, 7)


@pytest.mark.parametrize("kind", ["certain", "uncertain", "parallel"])
def test_a_move_changes_what_the_explanation_says(kind):
    believed = belief(spread=0.0 if kind == "certain" else 0.3, zeta=ZETA if kind == "parallel" else None)
    plan = planned(believed)
    unit = unit_of(believed)
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
    unit, problem = unit_of(believed), believed.problem()
    now = penalised_cost(plan[None], problem, price=PRICE, unit=unit)[0]
    for j, told in enumerate(explained(believed, plan)):
        for option in told.options:
            if option.allowed:
                there = moved(plan, j, int(option.cluster_id[1:]))
                then = penalised_cost(there[None], problem, price=PRICE, unit=unit)[0]
                assert option.cost_change == pytest.approx(then - now, abs=1e-9)


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


def test_what_cannot_be_explained_is_refused():
    believed = belief()
    plan = planned(believed)
    with pytest.raises(DataError, match=r"no task 't9' in this round of 7"):
        explained(believed, plan, tasks=["t9"])
    with pytest.raises(DataError, match=r"the plan has task 't0' on"):
        explained(believed, plan, online=[f"c{i}" for i in range(4) if i != plan[0]])


@pytest.mark.parametrize("seed", range(6))
def test_no_move_pays_in_the_plan_of_the_rule_where_only_slow_clusters_are_reliable(seed):
    """Then missing reliability is dear: in makespans of the plan that has enough, not in those of the plan made."""
    believed = belief(clusters=4, tasks=3, seed=seed, gamma=0.97)
    slow, rng = np.arange(4) >= 2, np.random.default_rng(seed)
    T = believed.T * np.where(slow, 40.0, 1.0)[:, None]
    A = np.where(slow[:, None], 0.99, rng.uniform(0.93, 0.975, believed.A.shape))
    a_sd = np.where(slow[:, None], 0.01, rng.uniform(0.02, 0.15, A.shape))
    believed = replace(believed, T=T, A=A, a_sd=a_sd, log_sd=0.1 + 0 * T, own_sd=0.1 + 0 * T)
    plan = planned(believed)
    for told in explained(believed, plan):
        changes = [option.cost_change for option in told.options if option.cost_change is not None]
        assert min(changes) >= -1e-9
        assert min(changes) == pytest.approx(0, abs=1e-9)  # the chosen cluster's own

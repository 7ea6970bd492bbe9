"""Decisions of a release: its rule's plan, with a valid bound."""

import numpy as np
import pytest
from platform_log import CLUSTERS, small_log

from mfcp.errors import DataError, SettingsError
from mfcp.matching import MatchingProblem, solve
from mfcp.matching.problem import makespan, reliability
from mfcp.release.decision import decide

TABLES = small_log()
pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


def unseen(count=20):
    own = small_log(count, seed=9, start=500)
    return {name: own[name] for name in ("tasks", "nodes", "edges")}


def test_a_decision_is_the_rule_s_plan_with_a_valid_bound(release):
    tables = unseen(6)
    decision = decide(release, tables)
    belief = release.predict(tables)
    expected = release.trained.method.rule.plan(
        belief, parameter=float(release.trained.parameter[0]), price=release.price
    )[0]
    assert decision.assignment.tolist() == expected.tolist()
    problem = belief.problem()
    assert decision.makespan == pytest.approx(makespan(expected[None], problem.T)[0])
    assert decision.mean_reliability == pytest.approx(reliability(expected[None], problem.A)[0])
    at = min(decision.gamma, decision.mean_reliability)
    best = solve(MatchingProblem(problem.T[0], problem.A[0], at), "enumerate")
    assert decision.lower_bound <= best.makespan * (1 + 1e-9)
    assert decision.gap >= 0
    assert decision.version == release.version


@pytest.mark.parametrize("engine", ["enumerate", "milp", "dual"])
def test_an_engine_takes_the_predictions_for_the_truth(release, engine):
    tables = unseen(6)
    decision = decide(release, tables, engine=engine, gamma=0.85)
    problem = release.predict(tables).problem()
    best = solve(MatchingProblem(problem.T[0], problem.A[0], 0.85), "enumerate")
    assert decision.makespan == pytest.approx(best.makespan, rel=0.02)
    assert (decision.rule, decision.gamma) == (engine, 0.85)


def test_a_gamma_out_of_reach_is_said_and_every_task_still_has_a_cluster(release):
    decision = decide(release, unseen(6), gamma=0.9999)
    assert decision.status == "short"
    assert set(decision.cluster_id) <= set(CLUSTERS)


@pytest.mark.parametrize("engine", ["auto", "dual"])
def test_a_backlog_counts_on_the_clusters_that_get_tasks(release, engine):
    tables = unseen(6)
    free = decide(release, tables, gamma=0.8, engine=engine)
    busiest = max(CLUSTERS, key=free.cluster_id.count)
    busy = decide(release, tables, gamma=0.8, engine=engine, backlog={busiest: 10 * free.makespan})
    assert busiest not in busy.cluster_id
    assert busy.makespan < 10 * free.makespan
    some = decide(release, tables, engine=engine, backlog=dict.fromkeys(CLUSTERS, 100.0))
    T, A = (values[0] for values in (some.belief.problem().T, some.belief.problem().A))
    at = min(some.gamma, some.mean_reliability)
    best = solve(MatchingProblem(T, A, at, backlog=np.full(3, 100.0)), "enumerate").makespan
    assert some.lower_bound <= best * (1 + 1e-9)
    assert some.makespan == pytest.approx(makespan(some.assignment, T, None, np.full(3, 100.0)))


def test_a_price_of_nothing_buys_no_reliability(release):
    dear, cheap = (decide(release, unseen(12), gamma=0.97, price=price) for price in (1000.0, 0.0))
    assert cheap.makespan <= dear.makespan
    assert cheap.mean_reliability <= dear.mean_reliability
    assert (cheap.price, dear.price) == (0.0, 1000.0)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"price": -1.0}, "price: expected a finite number, at least 0, got -1.0"),
        ({"price": float("nan")}, "price: expected a finite number"),
        ({"backlog": {"b": float("inf")}}, "backlog of b: expected a finite number, at least 0, got inf"),
    ],
)
def test_amounts_that_are_none_are_refused(release, asked, told):
    with pytest.raises(SettingsError, match=told):
        decide(release, unseen(6), **asked)


def test_only_clusters_at_hand_are_used(release):
    decision = decide(release, unseen(6), clusters={"b", "c", "moon"})
    assert decision.clusters == ("b", "c")
    assert set(decision.cluster_id) <= {"b", "c"}
    with pytest.raises(DataError, match=r"none of moon is known to release .*; it knows a, b, c"):
        decide(release, unseen(6), clusters={"moon"})


def test_intervals_hold_about_95_percent_of_new_runs(release):
    own = small_log(60, seed=5, start=900)
    decision = decide(release, own)
    runs = own["runs"][own["runs"]["status"] == "succeeded"].groupby(["task_id", "cluster_id"])["duration_s"].mean()
    seen = runs.loc[list(zip(decision.task_id, decision.cluster_id, strict=True))].to_numpy()
    chosen = decision.chosen()
    inside = (seen >= chosen["seconds_low"]) & (seen <= chosen["seconds_high"])
    assert 0.85 <= inside.mean() <= 1
    assert (chosen["reliability_low"] <= chosen["reliability"]).all()

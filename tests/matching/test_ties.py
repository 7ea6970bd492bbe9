"""Of plans of equal cost the most reliable is taken, of these the shortest in total: against plain Python."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.platforms import built, every_plan, holds, platforms
from matching.small_rounds import rounds

from mfcp.errors import SettingsError
from mfcp.matching.expected import Moments, least_expected_cost
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem, busy, reliability
from mfcp.matching.ties import settled

NEAR = 1e-9


def totals(given, plan):
    """(mean reliability, busy seconds of all clusters) of a plan."""
    T, A = given["T"], given["A"]
    own = [[T[i, j] for j in range(len(plan)) if plan[j] == i] for i in range(len(T))]
    factor = [given["zeta"][len(times)] if "zeta" in given else 1.0 for times in own]
    mean = sum(A[plan[j], j] for j in range(len(plan))) / len(plan)
    return mean, sum(f * sum(times) for f, times in zip(factor, own, strict=True))


def least_by_hand(given, price):
    """(cost, -reliability, total time) of the plan that the rule takes; None where no plan holds."""
    but = () if price is None else ("reliability",)
    found = []
    for plan, value, excess in every_plan(given):
        if holds(excess, given, but=but):
            mean, total = totals(given, plan)
            found.append((value + (price or 0.0) * excess["reliability"], -mean, total))
    for place in range(3):
        least = min((each[place] for each in found), default=0.0)
        found = [each for each in found if each[place] <= least + 1e-11 * abs(least)]
    return found[0] if found else None


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=300)
def test_of_all_plans_the_preferred_one_is_taken(given, price):
    problem, wanted = built(given), None
    if problem is None or (wanted := least_by_hand(given, price)) is None:
        return
    plan = solve(problem, "enumerate", price=price).assignment
    mean, total = totals(given, plan)
    assert (-mean, total) == pytest.approx(wanted[1:], rel=NEAR)


def neighbours(plan, clusters):
    """Every plan that differs by one move or one swap."""
    for j in range(len(plan)):
        for i in range(clusters):
            yield np.r_[plan[:j], i, plan[j + 1 :]]
    for j, k in itertools.combinations(range(len(plan)), 2):
        swapped = plan.copy()
        swapped[[j, k]] = plan[[k, j]]
        yield swapped


@pytest.mark.parametrize("engine", ["milp", "greedy", "search", "dual", "pop", "admm", "auto"])
@given(platforms(), st.sampled_from([None, None, 5.0]))
@settings(max_examples=60)
def test_no_move_or_swap_leads_to_a_preferred_plan(engine, given, price):
    given.pop("deadline", None)
    problem = built(given)
    try:
        solution = solve(problem, engine, price=price)
    except SettingsError:  # what this engine cannot take
        return
    plan = solution.assignment
    if plan[0] < 0:
        return
    known = {tuple(own): (value, excess) for own, value, excess in every_plan(given)}
    but = () if price is None else ("reliability",)

    def cost(own):
        value, excess = known[tuple(own)]
        return value + (price or 0.0) * excess["reliability"]

    least, (mean, total) = cost(plan), totals(given, plan)
    assert least == pytest.approx(solution.objective, rel=NEAR)
    for other in neighbours(plan, problem.clusters):
        if tuple(other) not in known or not holds(known[tuple(other)][1], given, but=but):
            continue
        if known_span(given, other) > known_span(given, plan) * (1 + 1e-13) or cost(other) > least * (1 + 1e-13):
            continue
        better, shorter = totals(given, other)
        assert better <= mean + NEAR
        assert better < mean - 1e-13 or shorter >= total * (1 - NEAR)


def known_span(given, plan):
    problem = built(given)
    ends = busy(plan, problem.T, problem.zeta)
    wait = 0.0 if problem.backlog is None else problem.backlog
    return np.where(ends > 0, ends + wait, 0.0).max()


@pytest.mark.parametrize("parallel", [False, True])
def test_settling_keeps_what_a_plan_has_met(parallel):
    problem = rounds(4, 12, 200, 3, masked=False, ties=True, parallel=parallel, gamma=0.0)
    plans = np.random.default_rng(0).integers(4, size=(200, 12))
    after = settled(problem, plans)
    span = busy(plans, problem.T, problem.zeta).max(axis=1)
    assert (busy(after, problem.T, problem.zeta).max(axis=1) <= span * (1 + 1e-9)).all()
    assert (reliability(after, problem.A) >= reliability(plans, problem.A) - 1e-12).all()
    assert (after != plans).any()


def test_a_belief_without_spread_is_matched_by_the_same_rule():
    problem = rounds(3, 5, 50, 4, masked=False, ties=True, gamma=0.8)
    none = np.zeros(problem.T.shape)
    moments = Moments(problem.T, none, problem.A, none, problem.gamma, problem.allowed)
    unit = solve(problem.at(0.8)).makespan
    feasible = np.isfinite(unit)
    priced = solve(problem, price=4.0 * unit).assignment
    assert (least_expected_cost(moments, price=4.0)[feasible] == priced[feasible]).all()


def test_a_task_off_the_busiest_cluster_goes_where_it_is_most_reliable():
    T, A = [[6.0, 1.0], [9.0, 2.0], [9.0, 3.0]], [[0.9, 0.5], [0.9, 0.7], [0.9, 0.8]]
    for engine in ("enumerate", "milp", "dual"):
        assert solve(MatchingProblem(T, A, 0.0), engine).assignment.tolist() == [0, 2]

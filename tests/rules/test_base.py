"""What every rule gets and keeps."""

import numpy as np
import pytest
from rules.beliefs import belief

from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.regret import penalised_cost
from mfcp.registry import import_members
from mfcp.rules.base import Belief, Rule

import_members("mfcp.rules")


def test_a_belief_over_some_clusters_is_that_of_their_rows():
    whole = belief()
    part = whole.on([2, 0])
    np.testing.assert_array_equal(part.T, whole.T[:, [2, 0]])
    np.testing.assert_array_equal(part.allowed, whole.allowed[:, [2, 0]])


def test_a_belief_in_rounds_is_that_of_the_tasks_drawn():
    whole = belief(rounds=1, tasks=10)
    rounds = np.array([[0, 3, 5], [9, 1, 2]])
    drawn = whole.in_rounds(rounds, gamma=[0.5, 0.9], allowed=np.ones((3, 10), bool))
    np.testing.assert_array_equal(drawn.A[1], whole.A[0][:, rounds[1]])
    assert drawn.gamma.tolist() == [0.5, 0.9]
    shut = whole.in_rounds(rounds, gamma=0.5, allowed=np.zeros((3, 10), bool))
    assert not shut.allowed.any()


@pytest.mark.parametrize("kind", sorted(Rule.members))
def test_every_rule_plans_on_pairs_that_exist_in_every_round(kind):
    believed = belief(gamma=0.99)  # out of reach in most rounds
    rule = Rule.parse(kind)
    plan = rule.plan(believed, parameter=rule.candidates()[0], price=4.0)
    rounds, tasks = np.arange(len(plan))[:, None], np.arange(plan.shape[1])
    assert believed.allowed[rounds, plan, tasks].all()


@pytest.mark.parametrize("kind", sorted(Rule.members))
def test_only_rules_that_say_so_depend_on_the_spread(kind):
    rule, seen = Rule.parse(kind), []
    for log_sd, a_sd in ((0.0, 0.0), (0.8, 0.15)):  # own_sd is log_sd
        believed = belief(rounds=40, log_sd=log_sd, a_sd=a_sd)
        seen.append(rule.plan(believed, parameter=rule.candidates()[-1], price=4.0))
    assert np.array_equal(*seen) != rule.uses_spread


def test_the_tuned_parameter_costs_least_on_the_rounds_it_is_tuned_on():
    rule, believed = Rule.parse("margin"), belief(rounds=40)
    rng = np.random.default_rng(1)
    truth = Belief(
        believed.T * rng.lognormal(0, 0.3, believed.T.shape), np.clip(believed.A - 0.05, 0, 1), believed.log_sd,
        believed.own_sd, believed.a_sd, believed.gamma, believed.allowed,
    ).problem()  # fmt: skip
    unit = solve_or_fall_back(truth).makespan

    def cost(parameter):
        plan = rule.plan(believed, parameter=parameter, price=4.0)
        return penalised_cost(plan, truth, price=4.0, unit=unit).mean()

    chosen = rule.tune(believed, truth, price=4.0)
    assert cost(chosen) == min(map(cost, rule.candidates()))
    assert chosen > 0  # reliabilities are believed too high, so it has to ask for more

"""The paper's plans: Algorithm 1's largest share of each task."""

import numpy as np
import torch
from rules.beliefs import certain

from mfcp.matching.reference.literal import PRINTED_BETA, PRINTED_LAM, printed_problem, softmax_descent
from mfcp.methods.base import register_members
from mfcp.rules.base import Rule

register_members()


def test_each_task_goes_where_algorithm_1_puts_most_of_it():
    rng = np.random.default_rng(0)
    T, A = rng.lognormal(0, 1, (20, 3, 5)), rng.uniform(0.5, 1, (20, 3, 5))
    plan = Rule.parse("rounded").plan(certain(T, A, 0.7), parameter=0.0, price=4.0)
    unit = T.min(axis=1).sum(axis=1) / 3
    problem = printed_problem(
        *(torch.tensor(x) for x in (T / unit[:, None, None], A, np.full(20, 0.7))), PRINTED_BETA, PRINTED_LAM
    )
    np.testing.assert_array_equal(plan, softmax_descent(problem, steps=25).argmax(1).numpy())


def test_a_pair_that_does_not_exist_is_never_chosen():
    rng = np.random.default_rng(1)
    T, A = rng.lognormal(0, 1, (50, 3, 5)), rng.uniform(0.5, 1, (50, 3, 5))
    allowed = rng.random(T.shape) < 0.6
    allowed[:, 2] = True
    plan = Rule.parse("rounded").plan(certain(T, A, 0.7, allowed=allowed), parameter=0.0, price=4.0)
    assert np.take_along_axis(allowed, plan[:, None], axis=1).all()


def test_bounds_take_the_place_of_predictions():
    rng = np.random.default_rng(2)
    T, A = rng.lognormal(0, 1, (50, 3, 5)), rng.uniform(0.5, 1, (50, 3, 5))
    spread = np.array([0.0, 0.0, 2.0])
    rule, plain = Rule.parse("rounded_upper_bound"), Rule.parse("rounded")
    belief = certain(T, A, 0.5, log_sd=spread)
    np.testing.assert_array_equal(
        rule.plan(belief, parameter=0.0, price=4.0), plain.plan(belief, parameter=0.0, price=4.0)
    )
    wary = rule.plan(belief, parameter=1.0, price=4.0)
    assert (wary == 2).sum() < (plain.plan(belief, parameter=0.0, price=4.0) == 2).sum()
    assert len(rule.candidates()) > 1

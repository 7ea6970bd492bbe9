"""The point rule takes predictions for the truth."""

import numpy as np
from rules.beliefs import belief

from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.problem import makespan, reliability
from mfcp.rules.base import Rule
from mfcp.rules.point import Point


def test_no_plan_that_is_believed_reliable_enough_is_believed_faster():
    believed = belief(gamma=0.8)
    plans = all_plans(3, 4)[0]
    chosen = Point().plan(believed, parameter=0.0, price=4.0)
    problem = believed.problem()
    for T, A, plan in zip(problem.T, problem.A, chosen, strict=True):
        good = np.array([reliability(p, A) >= 0.8 and np.isfinite(makespan(p, T)) for p in plans])
        if good.any():
            spans = np.array([makespan(p, T) for p in plans[good]])
            assert makespan(plan, T) <= spans.min() * (1 + 1e-9)


def test_a_margin_is_a_higher_gamma():
    asked = Rule.parse("point").plan(belief(gamma=0.8), parameter=0.0, price=4.0, margin=0.05)
    np.testing.assert_array_equal(asked, Point().plan(belief(gamma=0.85), parameter=0.0, price=4.0))

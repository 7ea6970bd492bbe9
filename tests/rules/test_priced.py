"""The priced rule has the plan of least penalised cost, whatever gamma."""

import numpy as np
import pytest
from rules.beliefs import belief

from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.regret import penalised_cost
from mfcp.rules.point import Point
from mfcp.rules.priced import Priced


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.999])
def test_no_plan_costs_less(gamma):
    problem = belief(gamma=gamma).problem()
    unit = solve_or_fall_back(problem).makespan
    plan = Priced().plan(belief(gamma=gamma), parameter=0.0, price=4.0)
    own = penalised_cost(plan, problem, price=4.0, unit=unit)
    for other in all_plans(3, 4)[0]:
        whole = np.broadcast_to(other, plan.shape)
        assert (own <= penalised_cost(whole, problem, price=4.0, unit=unit) + 1e-9).all()


def test_at_a_high_price_it_keeps_what_the_point_rule_keeps():
    believed = belief(gamma=0.85)
    problem = believed.problem()
    status = solve_or_fall_back(problem).status
    plans = (rule.plan(believed, parameter=0.0, price=1e5) for rule in (Priced(), Point()))
    for priced, point, one in zip(*plans, status, strict=True):
        if one == "optimal":
            np.testing.assert_array_equal(priced, point)

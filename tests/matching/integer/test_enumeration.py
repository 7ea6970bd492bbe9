"""Enumeration is the least objective over all plans, by plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, holds, platforms, told

from mfcp.matching.planning import solve


@given(platforms(), st.sampled_from([None, None, 0.5, 30.0]))
@settings(max_examples=500)
def test_enumeration_is_the_least_objective_of_all_plans_that_hold(given, price):
    problem, expected = built(given), best_by_hand(given, price)
    if problem is None:
        assert expected == np.inf
        return
    solution = solve(problem, "enumerate", price=price)
    assert solution.status == ("optimal" if np.isfinite(expected) else "infeasible")
    if np.isfinite(expected):
        value, excess = told(given, solution.assignment)
        assert holds(excess, given, but=() if price is None else ("reliability",))
        assert solution.objective == pytest.approx(expected)
        assert value + (price or 0) * excess["reliability"] == pytest.approx(expected)
        assert solution.lower_bound == pytest.approx(expected)

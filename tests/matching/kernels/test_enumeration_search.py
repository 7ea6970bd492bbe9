"""The compiled search of small rounds: prices only save time, and its proofs are true."""

import numpy as np
import pytest
from matching.small_rounds import rounds

from mfcp.matching.engines import search
from mfcp.matching.planning import solve


@pytest.mark.parametrize("floor", [0.0, -1.0])
def test_prices_that_bound_nothing_cost_time_but_no_plan(floor, monkeypatch):
    """What may be spent on deviations grows from a share of the bound, which must be more than nothing."""
    problem = rounds(3, 5, 20, 4, gamma=0.7)
    free = np.where(problem.allowed, 0.0, np.inf).swapaxes(1, 2).copy()
    monkeypatch.setattr(search, "_priced", lambda problem, price: (free, np.full(20, floor), np.zeros(20)))
    found, best = solve(problem, "search"), solve(problem, "enumerate")
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-9)


def test_a_proof_is_true_where_plans_are_few_but_the_engine_does_not_know():
    """Every round's bound against enumeration, on rounds whose gamma is met by few plans."""
    base = rounds(3, 8, 60, 3, masked=False)
    problem = base.at(base.reachable_gamma() - 0.005)
    found, best = solve(problem, "search"), solve(problem, "enumerate")
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-9)
    assert (found.status == "optimal").all()

"""Programs of shares: cones, and what has no solution."""

import numpy as np
import pytest

from mfcp.errors import SolverError
from mfcp.simulator.policies.programs import ShareProgram


def program(extra=0):
    return ShareProgram(np.array([1, 2]), np.array([1, 2]), np.ones((2, 2), bool), extra)


def test_limits_of_jobs_and_types():
    share = program().minimise(-np.ones(4))
    assert share.sum(axis=1)[0] == pytest.approx(1, abs=1e-6)
    assert (np.array([1, 2]) @ share <= np.array([1, 2]) + 1e-6).all()


def test_a_product_of_at_least_one():
    made = program(2)
    made.product_at_least_one(made.weighted(np.ones((2, 2))), made.own_columns(0, np.ones(2)))
    cost = np.zeros(6)
    cost[4:] = [1.0, 1.0]  # the sum of reciprocals of time: 3 accelerators for 1 + 2
    share = made.minimise(cost)
    assert share.sum(axis=1) == pytest.approx([1, 1], abs=1e-5)


def test_what_has_no_solution_is_an_error():
    made = program()
    made.at_most(-made.weighted(np.ones((2, 2))), np.full(2, -5.0))
    with pytest.raises(SolverError, match="shares of 2 jobs: the solver ended with"):
        made.minimise(np.ones(4))

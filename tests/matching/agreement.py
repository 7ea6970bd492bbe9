"""Two exact engines, held against each other."""

import pytest

from mfcp.matching.planning import solve


def agrees(problem, price):
    """HiGHS proves what enumeration finds, never raises, and its bound is a bound."""
    one, other = solve(problem, "milp", price=price), solve(problem, "enumerate", price=price)
    assert one.status == other.status
    if one.status == "optimal":
        assert one.objective == pytest.approx(other.objective, rel=2e-6)
        assert one.lower_bound <= other.objective * (1 + 1e-12)
        assert one.lower_bound >= other.objective * (1 - 2e-6)

"""What `solve` promises whatever the engine: plans that hold, bounds that are bounds, statuses that are derived."""

from typing import ClassVar

import numpy as np
import pytest

from mfcp.errors import SettingsError, SolverError
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.engines.exact import Enumerate, Exact, Milp
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem

ROUND = MatchingProblem([[1.0, 2.0], [2.0, 1.0]], [[0.9, 0.9], [0.5, 0.5]], 0.9)


@pytest.fixture
def says():
    """An engine that returns what it is told to."""

    class Says(Engine):
        name: ClassVar[str] = "says"
        assignment: tuple[int, ...]
        bound: float

        def match(self, problem, **options):
            return Found(np.array([self.assignment]), np.array([self.bound]))

    yield Says
    del Engine.members["says"]


@pytest.mark.parametrize(
    ("assignment", "bound", "status", "lower"),
    [
        ((0, 0), 3.0, "optimal", 3.0),
        ((0, 0), 3.0 + 1e-9, "optimal", 3.0),  # never above the plan itself
        ((0, 0), 3.0 - 4e-6, "feasible", 3.0 - 4e-6),
        ((0, 0), -np.inf, "feasible", -np.inf),
        ((-1, -1), 2.0, "failed", 2.0),
        ((-1, -1), np.inf, "infeasible", np.inf),
    ],
)
def test_status_and_bound_are_derived(says, assignment, bound, status, lower):
    solution = solve(ROUND, says(assignment=assignment, bound=bound))
    assert solution.status == status
    assert solution.lower_bound == lower
    assert solution.makespan == (3.0 if assignment[0] == 0 else np.inf)


def test_a_plan_that_breaks_a_constraint_is_never_returned(says):
    with pytest.raises(SolverError, match=r"engine 'says' broke 'reliability' by 0\.2 in round 0"):
        solve(ROUND, says(assignment=(0, 1), bound=0.0))


def test_an_engine_refuses_what_it_cannot_take(says):
    with pytest.raises(SettingsError, match="engine 'says' cannot take backlog"):
        solve(MatchingProblem(ROUND.T, ROUND.A, 0.0, backlog=[1.0, 1.0]), says(assignment=(0, 0), bound=0.0))


def test_exact_enumerates_where_plans_are_few():
    def chosen(M, N):
        return type(Exact().resolve(MatchingProblem(np.ones((M, N)), np.ones((M, N)), 0.5), None, 60.0))

    assert chosen(3, 10) is Enumerate
    assert chosen(3, 11) is Milp
    assert chosen(1, 100) is Enumerate
    assert chosen(40, 30_000) is Milp  # 40 to the power of 30,000 is not computed


def test_the_package_offers_it():
    import mfcp

    assert mfcp.solve is solve

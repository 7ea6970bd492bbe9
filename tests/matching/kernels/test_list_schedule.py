"""The compiled list schedule."""

import numpy as np
import pytest

from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem


def test_longest_first_on_equal_clusters_by_hand():
    """Graham's own: 5, 5, 4, 4, 3, 3, 3 on three machines ends after 11 where 9 is possible."""
    sizes = np.array([5.0, 5, 4, 4, 3, 3, 3])
    solution = solve(MatchingProblem(np.tile(sizes, (3, 1)), np.ones((3, 7)), 0.0), "greedy")
    assert solution.makespan == 11.0
    assert solution.lower_bound == 9.0
    assert solve(MatchingProblem(np.tile(sizes, (3, 1)), np.ones((3, 7)), 0.0), "milp").makespan == pytest.approx(9.0)


def test_all_alike_is_shared_evenly():
    solution = solve(MatchingProblem(np.ones((4, 40)), np.full((4, 40), 0.9), 0.9), "greedy")
    assert solution.status == "optimal"
    assert solution.makespan == 10.0

"""Settling is tested against plain Python in tests/matching/test_ties.py; here that it ends, and where."""

import numpy as np
from matching.small_rounds import rounds

from mfcp.matching.problem import Capacity, MatchingProblem
from mfcp.matching.ties import settled


def test_settling_again_changes_nothing():
    for parallel in (False, True):
        problem = rounds(5, 30, 40, 1, masked=True, ties=True, parallel=parallel, gamma=0.0)
        plans = problem.allowed.argmax(axis=1)
        once = settled(problem, plans)
        np.testing.assert_array_equal(settled(problem, once), once)


def test_a_full_cluster_takes_a_task_only_in_exchange():
    """All three tasks are most reliable on the first cluster, which has room for one: the one that gains most."""
    T = np.ones((2, 3))
    A = [[0.9, 0.9, 0.9], [0.8, 0.5, 0.7]]
    room = Capacity("tasks", 1, [1, 3])
    problem = MatchingProblem([T], [A], 0.0, capacities=[room], backlog=[[9.0, 0.0]])
    assert settled(problem, np.array([[0, 1, 1]])).tolist() == [[1, 0, 1]]
    assert settled(problem, np.array([[1, 1, 1]])).tolist() == [[1, 1, 1]]  # the first cluster would end later

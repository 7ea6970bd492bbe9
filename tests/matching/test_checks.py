"""What the border of matching refuses, and that it says where."""

import numpy as np
import pytest

from mfcp.errors import DataError, InfeasibleError
from mfcp.matching.problem import Capacity, MatchingProblem, Objective

T = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
A = np.array([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"T": T[:, :2]}, r"T has shape \(2, 2\) but A has \(2, 3\)"),
        ({"T": T[0]}, r"must have shape"),
        ({"T": np.where(T == 5, np.nan, T)}, r"T\[1, 1\] = nan: expected a positive finite time"),
        ({"T": np.where(T == 5, -5, T)}, r"T\[1, 1\] = -5.0"),
        ({"A": A + 0.5}, r"A\[0, 0\] = 1.4: expected a probability"),
        ({"gamma": 1.5}, r"gamma must lie in \[0, 1\]"),
        ({"T": [["a", "b", "c"]] * 2}, r"T is not a numeric array"),
        ({"zeta": np.ones(3)}, r"zeta must have shape"),
        ({"zeta": np.zeros(4)}, r"zeta must hold positive"),
        ({"zeta": ["a"] * 4}, r"zeta is not a numeric array"),
        ({"gamma": [0.5, 0.5]}, r"gamma must have shape \(\)"),
        ({"gamma": np.nan}, r"gamma must lie in \[0, 1\]"),
        ({"allowed": np.ones((3, 2))}, r"allowed must have shape \(2, 3\)"),
        ({"backlog": [1.0, -1.0]}, r"backlog\[1\] = -1.0: expected at least 0 seconds"),
        ({"backlog": [1.0, np.inf]}, r"backlog\[1\] = inf"),
        ({"backlog": [1.0, 2.0, 3.0]}, r"backlog must have shape \(2,\)"),
        ({"deadline": [1.0, np.nan, 2.0]}, r"deadline\[1\] = nan"),
        ({"cost": np.full((2, 3), -1.0)}, r"cost\[0, 0\] = -1.0: expected finite and at least 0"),
        ({"cost": np.ones(4)}, r"cost must have shape"),
        ({"objective": Objective(cost=1.0)}, r"the objective weighs cost, but the problem has none"),
        ({"capacities": [Capacity("c", np.ones(4), 1)]}, r"capacity 'c': use \(4,\) and limit \(\) do not fit"),
        ({"capacities": [Capacity("c", 1, 1), Capacity("c", 1, 1)]}, r"capacities need names of their own"),
        ({"capacities": [Capacity("deadline", 1, 1)]}, r"capacities need names of their own"),
    ],
)
def test_bad_input_is_named(change, words):
    with pytest.raises(DataError, match=words):
        MatchingProblem(**({"T": T, "A": A, "gamma": 0.5} | change))


def test_bad_entry_names_its_round():
    times = np.stack([T, T, T])
    times[2, 1, 0] = np.inf
    with pytest.raises(DataError, match=r"round 2: T\[1, 0\] = inf"):
        MatchingProblem(times, np.stack([A, A, A]), 0.5)


def test_a_task_that_may_run_nowhere_is_named():
    allowed = np.array([[True, False, True], [True, False, True]])
    with pytest.raises(InfeasibleError, match="task 1 has no allowed cluster"):
        MatchingProblem(T, A, 0.5, allowed)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Capacity("memory", [-1.0], 1.0), "capacity 'memory': use must be at least 0, finite"),
        (lambda: Capacity("memory", [1.0], np.nan), "capacity 'memory': limit must be at least 0"),
        (lambda: Capacity("memory", ["much"], 1.0), "capacity 'memory': use is not a numeric array"),
        (lambda: Objective(makespan=0.0), "not all 0"),
        (lambda: Objective(cost=-1.0), r"must be 0 to 1e\+12"),
        (lambda: Objective(makespan=1e308), r"must be 0 to 1e\+12"),
        (lambda: Objective(total_time=np.nan), r"must be 0 to 1e\+12"),
    ],
)
def test_bad_parts_are_named(make, words):
    with pytest.raises(DataError, match=words):
        make()


def test_a_task_that_is_late_everywhere_is_told_with_its_times():
    with pytest.raises(InfeasibleError, match=r"task 2 .* meets its deadline of 2 s: .* not done before 3.5 s; move"):
        MatchingProblem(T, A, 0.5, deadline=[9.0, 9.0, 2.0], backlog=0.5)

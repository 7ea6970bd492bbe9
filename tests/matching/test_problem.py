import numpy as np
import pytest

from mfcp.errors import DataError, InfeasibleError
from mfcp.matching.planning import require_feasible
from mfcp.matching.problem import MatchingProblem, busy, loads, makespan, reliability

T = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
A = np.array([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]])
PLAN = np.array([0, 1, 0])


def test_quantities_of_a_plan_by_hand():
    np.testing.assert_array_equal(loads(PLAN, T), [4.0, 5.0])
    assert makespan(PLAN, T) == 5.0
    assert reliability(PLAN, A) == pytest.approx((0.9 + 0.5 + 0.7) / 3)


def test_parallel_execution_scales_by_the_number_of_tasks_of_each_cluster():
    zeta = np.array([[1.0, 1.0, 0.5, 0.25], [1.0, 0.8, 0.6, 0.4]])
    np.testing.assert_allclose(busy(PLAN, T, zeta), [4.0 * 0.5, 5.0 * 0.8])
    assert makespan(PLAN, T, zeta) == 4.0


def test_what_is_not_allowed_may_hold_anything():
    times = T.copy()
    times[0, 0] = np.nan
    allowed = np.array([[False, True, True], [True, True, True]])
    problem = MatchingProblem(times, A, 0.5, allowed)
    assert problem.T[0, 0] == np.inf
    assert problem.A[0, 0] == 0.0
    assert makespan(PLAN, problem.T) == np.inf


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


def test_gamma_out_of_reach_gives_both_numbers():
    with pytest.raises(InfeasibleError, match=r"best reachable mean reliability 0.8 < gamma 0.85"):
        require_feasible(MatchingProblem(T, A, 0.85))

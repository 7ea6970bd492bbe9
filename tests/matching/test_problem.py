import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from matching.platforms import built, platforms, told

from mfcp.errors import InfeasibleError
from mfcp.matching.infeasible import require_feasible
from mfcp.matching.problem import (
    Capacity,
    MatchingProblem,
    Solution,
    busy,
    loads,
    makespan,
    objective_value,
    reliability,
    violations,
)

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


def test_gamma_out_of_reach_gives_both_numbers():
    with pytest.raises(InfeasibleError, match=r"best reachable mean reliability 0.8 < gamma 0.85"):
        require_feasible(MatchingProblem(T, A, 0.85))


@given(platforms(most_tasks=4))
@settings(max_examples=300)
def test_a_plans_value_and_violations_are_those_of_clusters_that_run_it(given):
    """Against plain Python in which every cluster works through its tasks; on every plan, broken or not."""
    problem = built(given)
    assume(problem is not None)
    problem = problem.reopened()
    M, N = given["T"].shape
    for plan in itertools.islice(itertools.product(range(M), repeat=N), 0, None, 3):
        value, excess = told(given, plan)
        found = violations(problem, np.array(plan))
        assert found["allowed"] == excess.pop("allowed")
        if found["allowed"]:
            continue
        assert objective_value(problem, np.array(plan)) == pytest.approx(value)
        assert found.keys() - {"allowed"} == excess.keys()
        for name, over in excess.items():
            size = np.max(given["T"]) * N if name == "deadline" else 1.0
            assert found[name] == pytest.approx(over, rel=1e-6, abs=1e-8 * size)


def test_violations_of_a_batch_are_those_of_its_rounds():
    rng = np.random.default_rng(0)
    shape = (4, 3, 5)
    batch = MatchingProblem(
        rng.lognormal(size=shape), rng.uniform(0.5, 1, shape), rng.uniform(0.7, 0.9, 4),
        backlog=rng.uniform(0, 1, (4, 3)), deadline=rng.uniform(4, 9, (4, 5)),
        capacities=[Capacity("memory", rng.uniform(size=(4, 1, 5)), 1.0)],
    ).reopened()  # fmt: skip
    plans = rng.integers(0, 3, (4, 5))
    together = violations(batch, plans)
    for b in range(4):
        for name, excess in violations(batch.take(b), plans[b]).items():
            assert together[name][b] == pytest.approx(excess)


def test_limits_are_held_to_a_share_of_themselves():
    """A billionth of the limit, whatever its unit: no more, and rounding no less."""
    for unit in (1e-12, 1.0, 1e12):
        problem = MatchingProblem(
            T, A, 0.0, capacities=[Capacity("use", np.array([0.1, 0.2, 0.7]) * unit, np.array([0.3, 1.0]) * unit)]
        )
        assert violations(problem, np.array([0, 0, 1]))["use"] == 0.0  # 0.1 + 0.2 > 0.3 in binary
        tight = MatchingProblem(T, A, 0.0, capacities=[Capacity("use", unit, unit * (2 - 1e-8))])
        assert violations(tight, np.array([0, 0, 1]))["use"] == pytest.approx(1e-8 * unit)


def test_what_cannot_meet_its_deadline_alone_is_closed_and_can_be_reopened():
    problem = MatchingProblem(T, A, 0.5, deadline=[1.0, np.inf, 5.0], backlog=[0.0, 1.0])
    np.testing.assert_array_equal(problem.allowed, [[True, True, True], [False, True, False]])
    assert problem.T[1, 2] == np.inf
    reopened = problem.reopened()
    np.testing.assert_array_equal(reopened.T, T)
    assert violations(reopened, np.array([1, 1, 0]))["deadline"] == 4.0
    free = problem.without({"deadline", "reliability"})
    assert free.deadline is None
    assert free.gamma == 0.0
    assert free.allowed.all()
    np.testing.assert_array_equal(problem.flat().take([0, 0]).reopened().T, [T, T])


def test_side_by_side_a_late_task_may_be_in_time_with_company():
    """zeta below 1/2 at two tasks: alone too late, together not; the pair stays open."""
    zeta = [1.0, 1.0, 0.3]
    problem = MatchingProblem([[1.0, 1.0], [5.0, 5.0]], np.ones((2, 2)), 0.0, zeta=zeta, deadline=[0.7, 0.7])
    assert violations(problem, np.array([0, 0]))["deadline"] == 0.0
    assert violations(problem.take(None).take(0), np.array([0, 0]))["deadline"] == 0.0


def test_the_gap_is_the_distance_to_the_bound_or_nothing():
    solution = Solution(
        assignment=np.zeros((5, 1), int), makespan=np.ones(5), status=np.array(["feasible"] * 5), seconds=0, engine="",
        lower_bound=np.array([1.0, 2.0, -np.inf, 0.0, np.inf]), objective=np.array([1.5, 2.0, 1.0, 0.0, np.inf]),
    )  # fmt: skip
    np.testing.assert_array_equal(solution.gap, [0.5, 0.0, np.nan, 0.0, np.nan])


def test_single_precision_is_kept_and_summed_in_double():
    times = np.full((2, 50_000), 0.1, np.float32)
    problem = MatchingProblem(times, np.ones((2, 50_000), np.float32), 0.5)
    assert problem.T is times
    assert makespan(np.zeros(50_000, int), problem.T) == pytest.approx(50_000 * float(np.float32(0.1)), rel=1e-12)

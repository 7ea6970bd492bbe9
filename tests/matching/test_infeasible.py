"""Why there is no plan: every number against a look at all plans."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from matching.platforms import best_by_hand, built, every_plan, holds, platforms

from mfcp.errors import InfeasibleError
from mfcp.matching.infeasible import explain_infeasible, require_feasible
from mfcp.matching.integer import enumeration
from mfcp.matching.planning import solve
from mfcp.matching.problem import Capacity, MatchingProblem

T = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
A = np.array([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]])


def least_by_hand(given, name, others):
    """The least excess of one constraint over the plans that meet the others; inf if none does."""
    free = {"reliability", "deadline", "tasks", "memory"} - set(others)
    return min((e[name] for _, _, e in every_plan(given) if holds(e, given, but=free)), default=np.inf)


@pytest.mark.parametrize("engine", ["enumerated", "elastic"])
@given(given=platforms(most_tasks=4))
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_every_number_is_the_least_over_all_plans(engine, given):
    problem = built(given)
    assume(problem is not None and not np.isfinite(best_by_hand(given)))
    assume(engine == "enumerated" or problem.zeta is None)
    with pytest.MonkeyPatch.context() as patch:
        if engine == "elastic":
            patch.setattr(enumeration, "ENUMERATE_AT_MOST", 1e-300)
        found = explain_infeasible(problem)
    for name in found.names:
        by_itself = least_by_hand(given, name, [])
        close = {"rel": 1e-6, "abs": 1e-6 * (np.max(given["T"]) if name == "deadline" else 1.0)}
        assert (found.alone[name].reached if name in found.alone else 0.0) == pytest.approx(by_itself, **close)
        among = least_by_hand(given, name, set(found.names) - {name})
        assert (found.together[name].reached if name in found.together else np.inf) == pytest.approx(among, **close)
        for excess, truth in ((found.alone.get(name), by_itself), (found.together.get(name), among)):
            assert excess is None or excess.least <= truth * (1 + 1e-9)
    if "reliability" in found.names and found.nearest_gamma is not None:
        short = least_by_hand(given, "reliability", set(found.names) - {"reliability"})
        assert found.nearest_gamma == pytest.approx(given["gamma"] - short)
        assert found.exact
    assert "\n" not in found.message


@given(given=platforms(most_tasks=4))
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_relaxed_by_what_it_says_the_round_has_a_plan(given):
    problem = built(given)
    assume(problem is not None and not np.isfinite(best_by_hand(given)))
    for name, excess in explain_infeasible(problem).together.items():
        by = excess.reached * (1 + 1e-9)
        relaxed = dict(given)
        if name == "reliability":
            relaxed["gamma"] = given["gamma"] - by
        elif name == "deadline":
            relaxed["deadline"] = given["deadline"] + by
        else:
            relaxed["capacities"] = [
                Capacity(c.name, c.use, c.limit + (by if c.name == name else 0.0)) for c in given["capacities"]
            ]
        assert solve(MatchingProblem(**relaxed), "enumerate").status == "optimal"


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"gamma": 0.85}, "(2 clusters, 3 tasks): best reachable mean reliability 0.8 < gamma 0.85; lower gamma"),
        ({"capacities": [Capacity("tasks", 1, 1)]}, "capacity 'tasks' is exceeded by 1 under every plan; raise"),
        (
            {"gamma": 0.75, "capacities": [Capacity("tasks", 1, [1, 2])]},
            "no plan meets reliability, capacity 'tasks' at once; any one of these makes one: "
            "gamma 0.6 instead of 0.75, or limits of capacity 'tasks' 2 higher",
        ),
        ({"deadline": [4.0, 4.0, 4.0]}, "some task is 1 s late under every plan; move deadlines"),
        (
            {"gamma": 0.85, "capacities": [Capacity("tasks", 1, [1, 2])]},
            "best reachable mean reliability 0.8 < gamma 0.85 (0.6 under the other constraints); lower gamma",
        ),
    ],
)  # fmt: skip
def test_the_message_names_constraint_amount_and_remedy(extra, words):
    problem = MatchingProblem(T, A, **({"gamma": 0.5} | extra))
    assert solve(problem).status == "infeasible"
    assert words in explain_infeasible(problem).message


def test_what_only_bounds_are_known_of_says_so():
    """Too large for the elastic program, and parallel: reliability by its own bound, the capacity not at all."""
    rng = np.random.default_rng(0)
    shape = (3, 20)
    problem = MatchingProblem(
        rng.lognormal(size=shape),
        rng.uniform(0.5, 0.9, shape),
        0.88,
        zeta=np.ones(21),
        capacities=[Capacity("n", 1, 7)],
    )
    found = explain_infeasible(problem)
    assert list(found.alone) == ["reliability"]
    assert not found.exact
    assert found.nearest_gamma <= float(problem.reachable_gamma())
    assert "at least" in found.message


def test_a_round_of_a_batch_is_told_by_its_index():
    problem = MatchingProblem(np.stack([T, T]), np.stack([A, A]), [0.5, 0.85])
    with pytest.raises(InfeasibleError, match=r"round 1 \(2 clusters, 3 tasks\): best reachable"):
        require_feasible(problem)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_a_feasible_round_passes(seed):
    rng = np.random.default_rng(seed)
    A = rng.uniform(0.5, 1, (3, 4))
    require_feasible(MatchingProblem(np.ones((3, 4)), A, A.max(0).mean()))

"""Plans of the local search: valid under every extension, as good as enumeration where that is possible."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.matching.large.candidates import Prices, Pricing, gather, rows_of
from mfcp.matching.large.search import search
from mfcp.matching.problem import (
    Capacity,
    MatchingProblem,
    Objective,
    makespan,
    objective_value,
    reliability,
    violations,
)


def pricing_of(problem, *, seconds=None, q=0.0, bound=-np.inf):
    """Crude prices: every allowed cluster a candidate, equal shares."""
    M, N = problem.clusters, problem.tasks
    rows = rows_of(problem)
    cluster = np.where(problem.allowed.T, np.arange(M, dtype=np.int32), np.int32(-1))
    candidates = gather(problem, rows, cluster)
    candidates.share[:] = (cluster >= 0) / (cluster >= 0).sum(1)[:, None]
    seconds = np.full(M, problem.objective.makespan / M) if seconds is None else seconds
    return Pricing(Prices(seconds, q, np.zeros((len(rows), M))), bound, candidates, {})


def everything(seed, *, M=None, N=None):
    """A random small round with a random choice of extensions."""
    rng = np.random.default_rng(seed)
    M, N = M or int(rng.integers(1, 4)), N or int(rng.integers(1, 7))
    T, A = rng.lognormal(0, 0.8, (M, N)), rng.uniform(0.5, 1.0, (M, N))
    allowed = rng.random((M, N)) < 0.8
    allowed[rng.integers(0, M, N), np.arange(N)] = True
    options = {}
    best = np.where(allowed, A, 0).max(0).mean()
    least = np.where(allowed, T, np.inf).min(0)
    if rng.random() < 0.4:
        options["backlog"] = rng.uniform(0, 2, M)
    if rng.random() < 0.4:
        options["zeta"] = np.concatenate([[1.0], np.sort(rng.uniform(0.5, 1.0, N))[::-1]])
    if rng.random() < 0.4:
        options["capacities"] = (
            Capacity("tasks", 1.0, rng.integers(1, N + 1, M)),
            Capacity("memory", rng.uniform(0, 2, N), rng.uniform(1, 2 * N, M)),
        )
    if rng.random() < 0.4:
        options["deadline"] = least + rng.uniform(2, 12, N)
    if rng.random() < 0.4:
        options["cost"] = rng.uniform(0, 3, (M, N))
        options["objective"] = Objective(float(rng.integers(0, 2)), 0.3, 0.5)
    return MatchingProblem(T, A, rng.uniform(0.3, 1.0) * best, allowed, **options)


def optimum(problem, penalty=None):
    """The least objective over all plans that meet every constraint; inf if there is none."""
    plans = np.array(list(itertools.product(range(problem.clusters), repeat=problem.tasks)))
    plans = plans[problem.allowed[plans, np.arange(problem.tasks)].all(axis=1)]
    copies = problem.take(None).take(np.zeros(len(plans), int))
    value = objective_value(copies, plans)
    broken = violations(copies, plans)
    if penalty is not None:
        del broken["reliability"]
        value += penalty * problem.tasks * np.maximum(copies.gamma - reliability(plans, copies.A), 0.0)
    good = np.all([excess == 0 for excess in broken.values()], axis=0)
    return value[good].min(initial=np.inf)


def value_of(problem, plan, penalty=None):
    missing = max(0.0, float(problem.gamma) - float(reliability(plan, problem.A)))
    return float(objective_value(problem, plan)) + (penalty or 0.0) * problem.tasks * missing


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), soft=st.booleans())
def test_plans_are_valid_and_never_below_the_optimum(seed, soft):
    try:
        problem = everything(seed)
    except Exception as error:  # a task without a cluster that meets its deadline
        assert type(error).__name__ == "InfeasibleError"
        return
    penalty = 2.0 if soft else None
    plan = search(problem, pricing_of(problem), time_limit=10.0, penalty=penalty)
    if plan[0] < 0:
        assert (plan == -1).all()
        return
    broken = violations(problem, plan)
    if soft:
        broken.pop("reliability")
    assert all(v == 0 for v in broken.values())
    assert value_of(problem, plan, penalty) >= optimum(problem, penalty) * (1 - 1e-9)


def test_most_tiny_rounds_are_solved_to_the_optimum():
    reached = []
    for seed in range(150):
        try:
            problem = everything(seed)
        except Exception:
            continue
        penalty = None if seed % 2 else 2.0
        best = optimum(problem, penalty)
        plan = search(problem, pricing_of(problem), time_limit=10.0, penalty=penalty)
        found = np.inf if plan[0] < 0 else value_of(problem, plan, penalty)
        reached.append(found == best or found <= best * (1 + 1e-9))
        print(
            seed,
            found,
            best,
            problem.zeta is not None,
            problem.deadline is not None,
            problem.objective,
            len(problem.capacities),
        )
    print(np.mean(reached))
    assert np.mean(reached) > 0.95

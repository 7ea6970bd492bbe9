"""Long tasks are fixed first."""

import numpy as np
import pytest
from matching.large.rounds import heavy, sized

from mfcp.matching.large.plan_search import search
from mfcp.matching.large.pricing import price
from mfcp.matching.problem import makespan


def many_long_tasks(M, N, seed):
    """M // 4 tasks that each fill most of a cluster, among small ones."""
    rng = np.random.default_rng([seed, M, N])
    sizes = rng.lognormal(0, 0.7, N)
    sizes[: M // 4] = 0.9 * sizes.sum() / M * rng.uniform(0.8, 1.2, M // 4)
    return sized(sizes, M, rng)


def test_long_tasks_are_fixed_and_the_rest_priced_around_them():
    problem = many_long_tasks(30, 4000, 0)
    found = price(problem, time_limit=60.0)
    least = problem.T.min(axis=0)
    long_tasks = np.flatnonzero(least > 0.25 * found.bound)
    chosen = found.candidates.cluster[long_tasks]
    assert len(long_tasks) >= 4
    assert (chosen[:, 0] >= 0).all()
    assert (chosen[:, 1:] < 0).all()
    load = np.bincount(chosen[:, 0], problem.T[chosen[:, 0], long_tasks], minlength=30)
    assert load.max() <= 1.01 * found.bound
    plan = search(problem, found, time_limit=60.0)
    assert found.bound <= makespan(plan, problem.T) <= 1.01 * found.bound  # far from it if the relaxation splits them


@pytest.mark.parametrize("index", [1.5, 1.2, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_rounds_that_hang_on_a_few_long_tasks_lose_less_than_a_task_of_a_cluster(index, seed):
    problem = heavy(60, 2400, index, seed)
    found = price(problem, time_limit=60.0)
    plan = search(problem, found, time_limit=60.0)
    assert plan.min() >= 0
    assert found.bound <= makespan(plan, problem.T) <= (1.0 + 60 / 2400) * found.bound

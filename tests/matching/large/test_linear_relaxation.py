"""The linear relaxation against HiGHS."""

import numpy as np
import pytest
from matching.large.rounds import relaxed, unrelated

from mfcp.matching.large.pricing import price
from mfcp.matching.problem import Capacity, MatchingProblem, Objective

CASES = {
    "makespan": {},
    "float32": {"dtype": np.float32},
    "masks": {"mask": 0.3},
    "reliability binds": {"gamma": 0.955},
    "reliability does not": {"gamma": 0.1},
    "tasks per cluster": {"capacity": True},
    "total time": {"objective": Objective(makespan=1.0, total_time=0.02)},
    "cost alone": {"objective": Objective(makespan=0.0, cost=1.0), "costs": True},
}


@pytest.mark.parametrize("case", CASES)
def test_bound_meets_the_linear_relaxation(case):
    options = dict(CASES[case])
    M, N, rng = 6, 90, np.random.default_rng(0)
    extra = {"gamma": options.get("gamma", 0.9), "objective": options.get("objective", Objective())}
    if "mask" in options:
        extra["allowed"] = rng.random((M, N)) > options["mask"]
        extra["allowed"][0] = True
    if "capacity" in options:
        extra["capacities"] = [Capacity("tasks", 1, np.full(M, N // M))]
    if "costs" in options:
        extra["cost"] = rng.uniform(0.5, 2.0, (M, N))
    problem = unrelated(M, N, 1, **extra)
    if "dtype" in options:
        problem = MatchingProblem(problem.T.astype(np.float32), problem.A.astype(np.float32), 0.9)
    optimum = relaxed(problem)
    found = price(problem, time_limit=60.0, tolerance=1e-6, fixing=False)
    assert optimum * (1 - 1e-5) <= found.bound <= optimum * (1 + 1e-9)

"""The engine that chooses says which one it chose."""

import numpy as np
import pytest

from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem


@pytest.mark.parametrize(
    ("M", "N", "limit", "options", "name"),
    [
        (3, 5, 60.0, {}, "enumerate"),
        (5, 20, 60.0, {}, "milp"),
        (30, 40, 60.0, {}, "milp"),  # few tasks per cluster: the relaxation is far from any plan
        (5, 20, 0.5, {}, "dual"),
        (10, 100, 60.0, {}, "dual"),
        (3, 20, 60.0, {"zeta": np.linspace(1.0, 0.6, 21)}, "dual"),
        (20, 500, 60.0, {"backlog": np.ones(20)}, "dual"),
    ],
)
def test_auto_chooses_by_size_and_time_and_says_which(M, N, limit, options, name):
    rng = np.random.default_rng(0)
    problem = MatchingProblem(rng.uniform(1, 2, (M, N)), np.full((M, N), 0.9), 0.5, **options)
    assert solve(problem, time_limit=limit).engine == name

"""The interior point method on all clusters as candidates is the whole linear relaxation, by HiGHS."""

import numpy as np
import pytest
from matching.large.rounds import relaxed, unrelated

from mfcp.matching import clock
from mfcp.matching.large.column_generation import generate
from mfcp.matching.large.linear_relaxation import guess, relax
from mfcp.matching.large.shards import Threads
from mfcp.matching.problem import MatchingProblem


@pytest.mark.parametrize("seed", range(3))
def test_with_every_cluster_a_candidate_its_value_is_the_relaxations(seed):
    problem = unrelated(4, 60, seed)
    data = relax(problem, np.ones(4), None, np.inf)
    found = generate(
        data, Threads(data, 4), guess(data), off=1.0, floor=0.0, width=4, tolerance=1e-6,
        deadline=clock.seconds() + 60,
    )  # fmt: skip
    assert found.value == pytest.approx(relaxed(problem), rel=2e-6)
    assert found.steps > 3


def test_prices_certify_with_a_sum_that_newton_steps_cannot_drift():
    """One allowed cluster, of price 1: at a sum 1e-8 too large the bound was 1e-8 above the optimum."""
    problem = MatchingProblem(np.ones((2, 1)), np.full((2, 1), 0.5), 0.0, np.array([[False], [True]]))
    data = relax(problem, np.ones(2), None, 1.5)
    found = generate(
        data, Threads(data, 10), guess(data), off=1.0, floor=0.0, width=10, tolerance=1e-6,
        deadline=clock.seconds() + 60,
    )  # fmt: skip
    assert found.bound <= 1.0
    assert found.best[:-1].sum() == pytest.approx(1.0, rel=1e-14)

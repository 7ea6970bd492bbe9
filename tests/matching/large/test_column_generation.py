"""Column generation: few candidates reach the bound of all, and prices of the last round save work."""

import pytest
from matching.large.rounds import unrelated

from mfcp.matching.large.pricing import price
from mfcp.matching.problem import MatchingProblem


@pytest.mark.parametrize(("M", "N", "candidates"), [(40, 400, 8), (15, 3000, 6)])
def test_few_candidates_and_a_sample_reach_the_same_bound(M, N, candidates):
    problem = unrelated(M, N, 2, gamma=0.96, sigma=0.3)
    found = price(problem, time_limit=60.0, candidates=candidates, tolerance=1e-5)
    whole = price(problem, time_limit=60.0, candidates=M, tolerance=1e-5)
    assert found.bound == pytest.approx(whole.bound, rel=2e-5)
    assert found.stats["value"] >= whole.bound * (1 - 1e-9)


def test_prices_of_the_last_round_save_work():
    problem = unrelated(30, 4000, 7, gamma=0.95)
    cold = price(problem, time_limit=60.0)
    later = MatchingProblem(problem.T * 1.001, problem.A, 0.95)
    warm = price(later, time_limit=60.0, start=cold.prices)
    assert warm.bound == pytest.approx(1.001 * cold.bound, rel=3e-4)
    assert warm.stats["steps"] < cold.stats["steps"]
    assert warm.stats["sample_passes"] == 0

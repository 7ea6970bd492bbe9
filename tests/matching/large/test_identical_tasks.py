"""Tasks that are equal in everything."""

import numpy as np
import pytest
from matching.large.rounds import relaxed, unrelated

from mfcp.matching.large.identical_tasks import alike
from mfcp.matching.large.pricing import price
from mfcp.matching.problem import MatchingProblem


def test_kinds_of_tasks_are_priced_once():
    few = unrelated(8, 12, 4, gamma=0.93)
    which = np.random.default_rng(5).integers(0, 12, 900)
    problem = MatchingProblem(few.T[:, which], few.A[:, which], 0.93)
    kinds = alike(problem)
    assert kinds is not None
    assert (few.T[:, which[np.unique(kinds, return_index=True)[1]]][:, kinds] == problem.T).all()
    assert alike(unrelated(8, 900, 4)) is None
    found = price(problem, time_limit=60.0, tolerance=1e-6)
    assert found.bound == pytest.approx(relaxed(problem), rel=1e-5)
    candidates = found.candidates  # shares of the tasks together are the relaxed plan: no cluster is above its load
    load = np.bincount(candidates.cluster.ravel(), (candidates.share * candidates.time).ravel(), 8)
    assert load.max() <= found.bound * 1.001
    assert (candidates.share * candidates.reliability).sum() >= (0.93 - 1e-4) * 900

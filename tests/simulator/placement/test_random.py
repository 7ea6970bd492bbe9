"""Any machine that fits."""

import numpy as np

from mfcp.simulator.placement.machines import Placement


def test_draws_are_among_those_that_fit_and_nobody_is_preferred(requests, machines):
    policy, rng = Placement.build("random"), np.random.default_rng(0)
    fits = np.array([True, False, True])
    drawn = [policy.choose(np.zeros(3), fits, rng) for _ in range(400)]
    assert set(drawn) == {0, 2}
    assert 150 < drawn.count(0) < 250
    assert policy.choose(np.zeros(3), np.zeros(3, bool), rng) == -1

"""Accelerators in part use first."""

import numpy as np

from mfcp.simulator.placement.machines import Placement


def test_shared_before_free_before_idle(requests, machines):
    asked = requests([(1, 1, 1, 500), (1, 1, 1, 1000), (1, 1, 0, 0)])
    full = machines([(9, 9, 4), (9, 9, 4)], 3)
    full.take(asked, 0, 0, np.array([0]))
    policy = Placement.build("gpu_packing")
    assert policy.scores(full, asked, 0).tolist() == [95.0, 49.0, 0.0]
    assert policy.scores(full, asked, 1).tolist() == [29.0, 29.0, 0.0]

"""Tasks of the same request together."""

import numpy as np

from mfcp.simulator.placement.machines import Placement


def test_bands_by_what_a_machine_holds(requests, machines):
    asked = requests([(1, 1, 1, 500), (1, 1, 2, 1000), (1, 1, 0, 0)])
    full = machines([(9, 9, 8)], 3)
    policy = Placement.build("gpu_clustering")
    assert policy.scores(full, asked, 0).tolist() == [25.0, 25.0, 0.0]
    full.take(asked, 1, 0, np.array([0, 1]))
    assert policy.scores(full, asked, 0).tolist() == [6.0, 81.0, 0.0]
    full.take(asked, 0, 0, np.array([2]))
    assert policy.scores(full, asked, 0).tolist() == [57.0, 57.0, 0.0]

"""What of a machine is useless to the usual tasks."""

import numpy as np

from mfcp.simulator.placement.fragmentation import fragmentation
from mfcp.simulator.placement.machines import Placement


def test_fragmentation_by_hand(requests, machines):
    asked = requests([(1, 1, 1, 500), (1, 1, 2, 1000)])
    full = machines([(9, 9, 1), (9, 9, 2), (0, 9, 2)], 2)
    # One accelerator serves the first request only; two serve both; without cores nobody is served.
    assert fragmentation(full, asked).tolist() == [500.0, 0.0, 2000.0]


def test_the_score_is_the_gain_of_the_best_accelerator(requests, machines):
    asked = requests([(1, 1, 1, 500), (1, 1, 2, 1000)])
    full = machines([(9, 9, 2)], 2)
    full.take(asked, 0, 0, np.array([1]))  # 1,000 and 500 are left: 750 useless on average
    policy = Placement.build("fgd")
    # On the half, 1,000 stay, of which the pair can use none: 500 useless. On the other, 500 each: 500.
    assert fragmentation(full, asked).tolist() == [750.0]
    points = np.floor(100 / (1 + np.exp(-0.25)))
    assert policy.scores(full, asked, 0)[0] == points

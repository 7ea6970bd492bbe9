"""The machine whose free resources are least like what is asked for."""

from mfcp.simulator.placement.machines import Placement


def test_points_by_hand(requests, machines):
    asked = requests([(64, 1, 4, 1000), (32, 1, 0, 0)])
    full = machines([(128, 9, 8), (64, 9, 4)], 2)
    policy = Placement.build("dot_product")
    assert policy.scores(full, asked, 0).tolist() == [50.0, 87.0]  # 1 - (.5 + .5) / 2; 1 - .25 / 2
    assert policy.scores(full, asked, 1).tolist() == [75.0, 93.0]

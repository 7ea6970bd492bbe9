"""The machine on which least stays free."""

from mfcp.simulator.placement.machines import Placement


def test_points_by_hand(requests, machines):
    asked = requests([(64, 1, 4, 1000), (32, 1, 0, 0)])
    full = machines([(128, 9, 8), (64, 9, 4)], 2)
    policy = Placement.build("best_fit")
    assert policy.scores(full, asked, 0).tolist() == [50.0, 12.0]  # 1 - (.5 + .5) / 2; 1 - (.75 + 1) / 2
    assert policy.scores(full, asked, 1).tolist() == [100.0, 62.0]

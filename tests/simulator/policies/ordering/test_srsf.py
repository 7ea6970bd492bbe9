"""Shortest remaining service first."""


def test_accelerators_count(ends):
    assert ends("srsf", [(0, 2, 5), (0, 1, 6), (0, 1, 6)], gpus=2) == [11, 6, 6]

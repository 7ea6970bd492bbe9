"""Quasi-shortest service first."""


def test_the_least_expected_service_is_next(ends):
    assert ends("qssf", [(0, 2, 10), (1, 2, 4), (2, 1, 5)], gpus=2) == [10, 19, 15]

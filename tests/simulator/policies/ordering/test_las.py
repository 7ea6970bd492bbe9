"""Least attained service."""


def test_a_job_that_reaches_a_limit_goes_behind_the_others(ends):
    assert ends("las", [(0, 1, 10), (1, 1, 3)], limits=(4.0,)) == [13, 7]


def test_service_counts_accelerators(ends):
    assert ends("las", [(0, 2, 10), (1, 2, 3)], gpus=2, limits=(8.0,)) == [13, 7]

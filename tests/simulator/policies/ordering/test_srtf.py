"""Shortest remaining time first."""


def test_a_shorter_job_stops_a_longer_one(ends):
    assert ends("srtf", [(0, 1, 10), (1, 1, 5), (2, 1, 2)]) == [17, 8, 4]


def test_accelerators_do_not_count(ends):
    assert ends("srtf", [(0, 2, 5), (0, 1, 6), (0, 1, 6)], gpus=2) == [5, 11, 11]

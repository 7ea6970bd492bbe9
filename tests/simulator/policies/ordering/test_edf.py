"""Earliest deadline first."""


def test_the_earliest_deadline_runs(ends):
    assert ends("edf", [(0, 1, 10, 30), (1, 1, 5, 9), (2, 1, 2, 40)]) == [15, 6, 17]

"""Shortest job first."""


def test_the_shortest_waiting_job_is_next_and_nobody_is_stopped(ends):
    assert ends("sjf", [(0, 1, 10), (1, 1, 5), (2, 1, 2)]) == [10, 17, 12]

"""Least laxity first."""


def test_the_job_with_the_least_slack_runs(ends):
    assert ends("least_laxity", [(0, 1, 2, 20), (1, 1, 10, 12), (2, 1, 1, 30)]) == [12, 11, 13]

"""EASY backfilling."""


def test_a_job_passes_only_if_the_first_in_line_does_not_start_later(ends):
    jobs = [(0, 1, 10), (1, 2, 5), (2, 1, 8), (3, 1, 9)]  # the third ends at 10, the fourth would at 12
    assert ends("easy", jobs, gpus=2) == [10, 15, 10, 24]


def test_accelerators_that_the_first_in_line_leaves_may_be_taken(ends):
    assert ends("easy", [(0, 2, 10), (1, 2, 5), (2, 1, 30)], gpus=3) == [10, 15, 32]

"""First in, first out."""


def test_nobody_passes_the_first_in_line(ends):
    jobs = [(0, 1, 10), (1, 2, 5), (2, 1, 1)]
    assert ends("fifo", jobs, gpus=2) == [10, 15, 16]


def test_with_leave_to_skip_a_small_job_passes(ends):
    assert ends("fifo", [(0, 1, 10), (1, 2, 5), (2, 1, 1)], gpus=2, skip="any") == [10, 15, 3]

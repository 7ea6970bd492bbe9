"""Tables of jobs in memory that another run has used."""

import numpy as np

from mfcp.simulator.kernels import books
from mfcp.simulator.kernels.books import END, FIRST_START, JOB, NONE, RESULTS, fresh_books, fresh_jobs, keep

GIVEN = np.arange(21.0).reshape(7, 3)


def test_every_field_of_a_fresh_job_is_set_whatever_was_there(monkeypatch):
    used = np.empty(5, JOB)
    used.view(np.uint8)[:] = 0x55
    monkeypatch.setattr(books, "_kept", [used])
    jobs = fresh_jobs(*GIVEN)
    assert np.shares_memory(jobs, used)
    submit, duration, overhead, gpus, value, weight, expected = GIVEN
    told = {"submit": submit, "duration": duration, "overhead": overhead, "gpus": gpus, "value": value}
    told |= {"weight": weight, "more": expected - duration, "left": duration, "cell": np.full(3, NONE)}
    told["end"] = np.full(3, np.nan)
    for name in JOB.names:
        np.testing.assert_array_equal(jobs[name], told.get(name, np.zeros(3)), err_msg=name)


def test_jobs_are_entered_whatever_arrays_they_come_in():
    given = np.arange(3.0)[None].repeat(7, 0).T.copy().T  # strided
    given.flags.writeable = False
    told = fresh_jobs(*given[:3], np.arange(3), *given[4:])
    for name in ("submit", "more", "gpus", "value"):
        np.testing.assert_array_equal(told[name], np.arange(3.0) * (name != "more"), err_msg=name)


def test_what_came_of_jobs_does_not_change_with_the_next_run(monkeypatch):
    monkeypatch.setattr(books, "_kept", [])
    jobs = fresh_jobs(*GIVEN)
    one, none = np.ones(1, int), np.empty((3, 0))
    told = fresh_books(jobs, one, 0 * one, np.ones((3, 1)), none, 1).results
    for number in RESULTS:
        expected = np.nan if number in (FIRST_START, END) else 0.0
        np.testing.assert_array_equal(told[number], np.full(3, expected))
    keep(jobs)
    assert np.shares_memory(fresh_jobs(*GIVEN), jobs)
    assert not np.shares_memory(told, jobs)

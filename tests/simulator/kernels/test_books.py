"""Tables of jobs in memory that another run has used."""

import numpy as np

from mfcp.simulator.kernels import books
from mfcp.simulator.kernels.books import JOB, NONE, RESULTS, fresh_jobs, results

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
    told |= dict.fromkeys(("started", "finished", "end"), np.full(3, np.nan))
    for name in JOB.names:
        np.testing.assert_array_equal(jobs[name], told.get(name, np.zeros(3)), err_msg=name)


def test_what_came_of_jobs_does_not_change_with_the_next_run(monkeypatch):
    monkeypatch.setattr(books, "_kept", [])
    jobs = fresh_jobs(*GIVEN)
    for number, name in enumerate(RESULTS):
        jobs[name] = number
    told = results(jobs)
    assert np.shares_memory(fresh_jobs(*GIVEN), jobs)
    assert {name: list(values) for name, values in told.items()} == {name: [k] * 3 for k, name in enumerate(RESULTS)}

"""Steps of those who size all jobs at once."""

import numpy as np
import pytest
from pydantic import ValidationError

from mfcp.simulator.policies.hosting import SizeWish, more_workers, one_worker_each, time_saved
from mfcp.simulator.policies.on_hosts.qore_dl import QoreDl


def wish(need):
    k = len(need)
    return SizeWish(
        np.arange(k), np.full(k, 100.0), np.zeros(k), np.full(k, 2.0), np.full(k, 1e3), need, need.sum(axis=1) / 3
    )


def test_a_worker_saves_what_its_job_takes_less():
    case = wish(np.full((3, 3), 0.1))
    assert time_saved(case, np.array([0, 1, 4])) == pytest.approx([200, 100, 10])


def test_each_of_three_resources_bounds_who_gets_a_worker():
    for scarce in range(3):
        need = np.full((4, 3), 0.1)
        need[:, scarce] = 0.4
        assert one_worker_each(wish(need), np.array([2, 0, 1, 3])).tolist() == [1, 0, 1, 0]
        grown = more_workers(wish(need), np.array([1, 0, 0, 0]), 5, lambda workers: np.ones(4))
        assert grown.tolist() == [2, 0, 0, 0]


def test_nobody_who_waits_gets_more_workers_and_nobody_more_than_the_most():
    case = wish(np.full((2, 3), 0.01))
    assert more_workers(case, np.array([1, 0]), 5, lambda workers: np.ones(2)).tolist() == [5, 0]
    assert more_workers(case, np.array([1, 1]), 5, lambda workers: np.zeros(2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    "bad", [{"workers": [5, 0, 2]}, {"thresholds": [0.5, 0.4, 0.7]}, {"generous": 0.5}, {"order": "best"}]
)
def test_settings_without_a_meaning_are_told(bad):
    with pytest.raises(ValidationError):
        QoreDl(**bad)

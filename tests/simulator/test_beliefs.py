"""What a policy believes: errors as large as asked for, and history without the future."""

import numpy as np
import pytest

from mfcp.errors import SettingsError
from mfcp.simulator.beliefs import Durations, GivenDurations
from mfcp.simulator.jobs import Jobs


@pytest.mark.parametrize("law", ["lognormal", "uniform", "two_point"])
@pytest.mark.parametrize("mre", [0.0, 0.1, 0.4])
def test_errors_have_the_mean_that_is_asked_for(law, mre):
    n = 200_000
    jobs = Jobs.simple(np.zeros(n), np.ones(n), np.full(n, 50.0))
    factor = Durations.build("error", mre=mre, law=law).durations(jobs, np.random.default_rng(1)) / 50
    assert np.abs(factor - 1).mean() == pytest.approx(mre, abs=0.005)
    assert factor.mean() == pytest.approx(1, abs=0.005)
    assert (factor > 0).all()


def test_history_is_what_had_ended_before():
    submit, duration = np.array([0.0, 1, 20, 21, 100]), np.array([10.0, 30, 50, 7, 1])
    jobs = Jobs.simple(submit, np.array([1, 1, 1, 2, 1]), duration, user=np.array(["a", "a", "a", "a", "b"]))
    believed = Durations.build("history").durations(jobs, np.random.default_rng(0))
    assert believed.tolist() == [3600, 3600, 10, 10, (10 + 30 + 50 + 7) / 4]


def test_nothing_is_not_a_number():
    jobs = Jobs.simple(np.zeros(1), np.ones(1), np.ones(1))
    assert np.isnan(Durations.build("nothing").durations(jobs, np.random.default_rng(0))).all()


def test_predictions_of_others_are_taken_as_they_are():
    jobs = Jobs.simple(np.zeros(2), np.ones(2), np.array([5.0, 1.0]))
    assert GivenDurations(seconds=(1.0, 5.0)).durations(jobs, None).tolist() == [1.0, 5.0]
    with pytest.raises(SettingsError, match="expected 2 positive seconds"):
        GivenDurations(seconds=(1.0,)).durations(jobs, None)

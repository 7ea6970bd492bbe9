"""Settings of the emulated platform."""

import pytest
from pydantic import ValidationError

from mfcp.emulator.settings import Drift, EmulatorSettings


@pytest.mark.parametrize("wrong", [{"missing": 1.0}, {"tasks": 0}, {"noise": -1}, {"speed": 2}])
def test_what_is_out_of_range_or_unknown_is_refused(wrong):
    with pytest.raises(ValidationError):
        EmulatorSettings(**wrong)


def test_a_drift_without_factors_changes_nothing():
    drift = Drift(cluster="a", day=3)
    assert (drift.slowdown, drift.hazard) == (1.0, 1.0)

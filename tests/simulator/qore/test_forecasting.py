"""Forecasts of loss curves."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.simulator.qore.forecasting import LossForecaster


def falling(power, count=120):
    return 2.0 * np.arange(1.0, count + 1.0) ** -power


@pytest.fixture(scope="module")
def network():
    return LossForecaster.fit([falling(power) for power in (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)])


def test_it_goes_on_as_the_runs_that_it_has_seen(network):
    true = falling(0.7)
    told = network.continued(true[:60], 120)
    assert told[:60].tolist() == true[:60].tolist()
    assert np.abs(np.log(told[60:] / true[60:])).max() < 0.1
    assert np.log(true[60] / true[-1]) > 0.45  # going on as it is would be off by that


def test_losses_of_any_scale_are_alike(network):
    small, large = (network.continued(scale * falling(0.5)[:40], 80) for scale in (1e-3, 1e3))
    assert large == pytest.approx(1e6 * small, rel=1e-4)


def test_the_same_runs_give_the_same_network():
    curves = [falling(0.3, 60), falling(0.9, 60)]
    first, second = (LossForecaster.fit(curves).continued(falling(0.5)[:30], 60) for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("curves", [[], [falling(0.5, 29)], [np.array([1.0, 0.0] * 20)]])
def test_curves_that_teach_nothing_are_an_error(curves):
    with pytest.raises(DataError, match="loss curve"):
        LossForecaster.fit(curves)


def test_too_few_losses_are_an_error(network):
    with pytest.raises(DataError, match="reads 20 or more"):
        network.continued(falling(0.5)[:19], 50)
    assert len(network.continued(falling(0.5)[:20], 50)) == 50

"""Convergence from loss curves: exact on curves of the fitted forms, and what holds of any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.errors import DataError
from mfcp.simulator.qore.equations import decline_rate
from mfcp.simulator.qore.loss_curves import continued, converged_at, fit_inverse, fit_power, remaining_epochs

EPOCHS = np.arange(1.0, 401.0)


def test_a_run_has_converged_when_its_last_30_losses_hardly_decline():
    losses = 0.9 ** np.minimum(EPOCHS, 50)
    end = converged_at(losses, 0.01)
    assert decline_rate(losses[end - 30 : end]) < 0.01 <= decline_rate(losses[end - 31 : end - 1])
    assert converged_at(0.9**EPOCHS, 0.01) is None


@pytest.mark.parametrize("form", ["inverse", "power"])
def test_the_end_of_a_curve_of_this_form_is_found_from_its_first_third(form):
    losses = 1 / (0.05 * EPOCHS + 0.8) + 0.15 if form == "inverse" else 2 * (1 + EPOCHS / 4) ** -1.0 + 0.1
    end = converged_at(losses, 0.005)
    seen = losses[: end // 3]
    assert remaining_epochs(seen, 0.005, 2000, form) == pytest.approx(end - len(seen), rel=0.12)
    curve = fit_inverse(losses) if form == "inverse" else fit_power(losses)
    assert curve(EPOCHS) == pytest.approx(losses, rel=0.03)


def test_the_newest_losses_tell_where_training_has_gone_through_phases():
    losses = np.where(EPOCHS <= 60, 0.96**EPOCHS, 0.96**60 * (1 + np.maximum(EPOCHS - 60, 0) / 40) ** -1.5)
    end = converged_at(losses, 0.01)
    done = int(0.6 * end)
    assert done + remaining_epochs(losses[:done], 0.01, 1000) == pytest.approx(end, rel=0.1)


def test_what_was_measured_stays_and_a_curve_goes_on_from_its_last():
    losses = np.array([1.0, 0.7, 0.52, 0.4])
    values = continued(losses, lambda k: 3.0 / k, 6)
    assert values == pytest.approx([1.0, 0.7, 0.52, 0.4, 0.4 * 4 / 5, 0.4 * 4 / 6])
    assert continued(losses, lambda k: 3.0 / k, 3).tolist() == losses[:3].tolist()


@given(st.integers(3, 120), st.integers(0, 1000), st.sampled_from(["inverse", "power"]))
def test_what_is_left_is_within_the_limit_and_no_scale_changes_it(count, seed, form):
    rng = np.random.default_rng(seed)
    losses = np.exp(np.cumsum(rng.normal(-0.02, 0.02, count)))
    left = remaining_epochs(losses, 0.01, 300, form)
    assert 0 <= left <= max(300 - count, 0)
    assert abs(remaining_epochs(1000 * losses, 0.01, 300, form) - left) <= 1
    assert remaining_epochs(losses, 0.02, 300, form) <= left


@pytest.mark.parametrize("losses", [[1.0, 0.5], [1.0, 0.5, np.nan], [1.0, 0.5, 0.0]])
def test_what_is_no_curve_is_refused(losses):
    with pytest.raises(DataError, match=f"loss curve: {len(losses)} losses; expected three or more"):
        remaining_epochs(np.array(losses), 0.01, 100)

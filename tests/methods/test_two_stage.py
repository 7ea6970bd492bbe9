"""The two-stage method: the pretrained predictors as they are."""

import numpy as np
import pytest
import torch
from methods.rows import FINETUNE

from mfcp.methods.base import Method

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


@pytest.mark.parametrize("loss", ["time", "log_time"])
def test_it_predicts_what_the_heads_of_its_loss_predict(setting, base, loss):
    trained = Method.parse({"kind": "two_stage", "loss": loss}).fit(setting, base, FINETUNE)
    with torch.no_grad():
        expected = base.heads[loss](torch.as_tensor(setting.Z))
    for own, head in zip(trained.predict(setting), expected, strict=True):
        np.testing.assert_array_equal(own, head.numpy())


def test_several_forecasts_are_their_mean_and_calibrated_as_one(setting, base):
    one, many = (
        Method.parse({"kind": "two_stage", "forecasts": names, "rule": "expected_cost"}).fit(setting, base, FINETUNE)
        for names in (["nets"], ["nets", "nets"])
    )
    np.testing.assert_allclose(one.predict(setting)[0], many.predict(setting)[0], rtol=1e-12)
    np.testing.assert_allclose(one.calibration.log_sd, many.calibration.log_sd, rtol=1e-12)
    assert (one.calibration.log_sd > 0).all()


def test_without_a_rule_that_needs_it_nothing_is_calibrated(setting, base):
    assert (Method.parse("two_stage").fit(setting, base, FINETUNE).calibration.log_sd == 0).all()

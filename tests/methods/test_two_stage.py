"""The two-stage method: the pretrained predictors as they are."""

import numpy as np
import pytest
import torch
from methods.rows import FINETUNE

from mfcp.methods.base import Method, predict

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


def test_tasks_whose_labels_were_learned_are_predicted_out_of_fold(setting, base):
    """So that margins and the like are chosen on predictions as good as those for test tasks, and no better."""
    own = Method.parse({"kind": "two_stage", "forecasts": ["nets"]}).fit(setting, base, FINETUNE)
    T, A = own.predict(setting)
    left_out = base.forecasts["nets"].out_of_fold
    for s in range(len(setting.seeds)):
        learned = (setting.split[s] == 0) | (setting.split[s] == 1)  # -1 is never in a round
        np.testing.assert_allclose(T[s][:, learned], np.exp(left_out.log_time[s][:, learned]), rtol=1e-12)
        np.testing.assert_allclose(A[s][:, learned], left_out.reliability[s][:, learned], rtol=1e-12)
        model, _ = predict(own.heads, setting.Z, setting.operator_times)
        np.testing.assert_array_equal(T[s][:, ~learned], model[s][:, ~learned])


def test_without_a_rule_that_needs_it_nothing_is_calibrated(setting, base):
    assert (Method.parse("two_stage").fit(setting, base, FINETUNE).calibration.log_sd == 0).all()

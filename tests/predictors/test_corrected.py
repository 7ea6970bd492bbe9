"""Networks that correct a stack of forecasts: nothing before training, and what is trained comes back from the disk."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from methods.rows import FINETUNE
from toy import toy_setting

from mfcp.methods.base import Method, predict
from mfcp.methods.pretrain import PretrainSettings, pretrain, spread_of
from mfcp.predictors.corrected import Corrected, CorrectedHeads, widened
from mfcp.predictors.cross_fitted import MeanOfFolds
from mfcp.predictors.forecast import TaskInputs
from mfcp.predictors.gaussian_process import GaussianProcess
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp
from mfcp.predictors.operator_times import OperatorForecast

GP = GaussianProcess(steps=10, sample=40)
FORECASTS = {"gp": GP, "operators": OperatorForecast(fallback=GP)}
ROW = {"kind": "plan_loss", "corrects": ["gp", "operators"], "rule": "expected_cost"}


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def base(setting):
    heads = PretrainSettings(predictor=Mlp(hidden=6), training=HeadTraining(epochs=10), folds=3, forecasts=FORECASTS)
    return pretrain(setting, heads)


def test_before_any_step_nothing_is_corrected(setting, base):
    mixture, _ = base.mixture(setting, ("gp", "operators"), "out_of_fold")
    heads = CorrectedHeads(Mlp(hidden=6), 3, 3, [(s, f) for s in (0, 1) for f in range(3)])
    inputs = TaskInputs.of(setting.Z, setting.operator_times)
    with torch.no_grad():
        T, A = mixture(inputs)
        found = Corrected(mixture, MeanOfFolds(heads, 3))(inputs)
    torch.testing.assert_close(found[0], T, rtol=1e-9, atol=0)
    torch.testing.assert_close(found[1], A, rtol=1e-6, atol=1e-6)


def test_wide_features_are_the_tasks_then_what_the_forecast_says(setting):
    Z = torch.as_tensor(setting.Z)
    log_t, a = torch.rand(2, 3, Z.shape[1]), torch.rand(2, 3, Z.shape[1])
    wide = widened(Z, log_t, a)
    assert wide.shape == (2, Z.shape[1], 3 + 6)
    assert (wide[1, 4, :3] == Z[1, 4]).all()
    assert (wide[1, 4, 3:6] == log_t[1, :, 4]).all()
    torch.testing.assert_close(torch.sigmoid(wide[1, 4, 6:]), a[1, :, 4].double())


def test_training_leaves_the_stack_alone_and_is_calibrated_as_it_ends(setting, base, monkeypatch):
    """A correction is trained for each seed and fold, and its error is measured out of fold."""
    monkeypatch.setattr(
        "mfcp.predictors.heads.Best.restore", lambda self: None
    )  # the last step: the start is best here
    before, left_out = base.mixture(setting, ("gp", "operators"), "out_of_fold")
    kept = deepcopy(before.state_dict())
    own = Method.parse(ROW).fit(setting, base, FINETUNE)
    for key, value in own.heads.mixture.state_dict().items():
        assert torch.equal(value, kept[key])
    T, _ = predict(own.heads, setting.Z, setting.operator_times)
    start, _ = predict(before, setting.Z, setting.operator_times)
    assert not np.allclose(T, start)
    assert (own.out_of_fold.known == left_out.known).all()
    expected = spread_of(setting, own.out_of_fold)
    np.testing.assert_array_equal(own.calibration.own_sd, expected.own_sd)
    assert (expected.own_sd != spread_of(setting, left_out).own_sd).any()

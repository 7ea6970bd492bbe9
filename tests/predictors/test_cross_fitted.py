"""Cross-fitted networks: each member leaves out a fold, and their mean predicts."""

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.methods.pretrain import training_data
from mfcp.predictors.cross_fitted import CrossFitted
from mfcp.predictors.forecast import TaskInputs
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp

MEMBER = CrossFitted(predictor=Mlp(hidden=4), training=HeadTraining(epochs=20, lr=0.02))


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def fitted(setting):
    data = training_data(setting, 3)
    return data, MEMBER.fit(data)


def members(fitted, Z):
    data, forecast = fitted
    with torch.no_grad():
        log_t, _ = forecast.model.heads.log_forward(torch.as_tensor(Z).repeat_interleave(data.folds, 0))
    return log_t.reshape(len(Z), data.folds, *log_t.shape[1:]).numpy()


def test_the_forecast_is_the_mean_of_its_members(setting, fitted):
    with torch.no_grad():
        log_t, _ = fitted[1].model(TaskInputs(torch.as_tensor(setting.Z)))
    np.testing.assert_allclose(log_t, members(fitted, setting.Z).mean(axis=1), rtol=1e-12)


def test_a_training_task_is_predicted_by_the_member_that_left_its_fold_out(setting, fitted):
    data, forecast = fitted
    each = members(fitted, setting.Z)
    for s in range(2):
        for f in range(data.folds):
            own = np.flatnonzero(data.fold[s] == f)
            np.testing.assert_allclose(forecast.out_of_fold.log_time[s][:, own], each[s, f][:, own], rtol=1e-12)


def test_where_validation_labels_are_learned_the_last_epoch_stays(setting):
    """Their values matter then, and as labels only: whole families leave together, and no checkpoint is chosen."""
    learned = training_data(setting, 3, "learned")
    one = MEMBER.fit(learned)
    longer = MEMBER.model_copy(update={"training": HeadTraining(epochs=20, lr=0.02, check_every=1)}).fit(learned)
    np.testing.assert_array_equal(one.out_of_fold.log_time, longer.out_of_fold.log_time)
    assert (one.out_of_fold.known == ((setting.split == 0) | (setting.split == 1))).all()


def test_progress_is_told_once_an_epoch():
    count = []
    MEMBER.fit(training_data(toy_setting(seeds=(0,)), 3), advance=lambda: count.append(1))
    assert len(count) == MEMBER.epochs() == 20

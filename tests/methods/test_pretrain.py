"""What every method starts from: kept on disk, and its settings named where they lack something."""

import numpy as np
import pytest
import torch
from methods.rows import FINETUNE, ROWS
from toy import toy_setting

from mfcp.errors import SettingsError
from mfcp.methods.base import Method
from mfcp.methods.pretrain import Pretrained, PretrainSettings, epochs, pretrain, training_data
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.linear import Linear

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


def test_pretrained_survives_the_disk(setting, base, tmp_path):
    base.save(tmp_path, "A")
    back = Pretrained.load(tmp_path, "A", setting)
    assert back.settings == base.settings
    np.testing.assert_array_equal(back.spread("log_time").a_sd, base.spread("log_time").a_sd)
    for key, value in base.heads["time"].state_dict().items():
        torch.testing.assert_close(back.heads["time"].state_dict()[key], value, rtol=0, atol=0)


def test_missing_loss_or_calibration_names_the_key(setting, base):
    bare = Pretrained(base.settings, {}, {}, {})
    with pytest.raises(SettingsError, match=r"pretrain\.losses lacks 'log_time'"):
        Method.parse("two_stage").fit(setting, bare, FINETUNE)
    heads_only = Pretrained(base.settings, base.heads, {}, {})
    with pytest.raises(SettingsError, match=r"pretrain\.calibrated lacks"):
        Method.parse(ROWS["two_stage_expected_cost"]).fit(setting, heads_only, FINETUNE)


def test_progress_is_told_as_often_as_announced():
    settings = PretrainSettings(
        predictor=Linear(), training=HeadTraining(epochs=7), losses=("time", "log_time"), folds=2
    )
    count = []
    pretrain(toy_setting(), settings, advance=lambda: count.append(1))
    assert len(count) == epochs(settings) == 3 * 7  # both losses, and the folds of the calibrated one


def test_training_data_leave_validation_and_test_tasks_without_a_fold(setting):
    data = training_data(setting, 3)
    np.testing.assert_array_equal(data.fold >= 0, setting.split == 0)
    assert data.folds == 3
    assert not (data.train & data.validation).any()
    for s in range(2):
        for name in np.unique(setting.group):
            own = data.fold[s][(setting.group == name) & (setting.split[s] == 0)]
            assert len(np.unique(own)) <= 1

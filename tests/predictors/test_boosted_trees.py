"""Boosted trees against LightGBM itself, and a clear word where it is missing."""

import sys
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.errors import DataError, SettingsError
from mfcp.methods.pretrain import training_data
from mfcp.predictors.boosted_trees import BoostedTrees
from mfcp.predictors.forecast import TaskInputs


def test_times_are_those_of_a_booster_of_log_seconds_on_the_training_pairs():
    setting = toy_setting(seeds=(0,))
    data = training_data(setting, 3)
    found, _ = BoostedTrees(trees=15).fit(data).model(TaskInputs(torch.as_tensor(setting.Z)))
    known = data.train[0, 1]
    plain = lightgbm.LGBMRegressor(
        n_estimators=15, learning_rate=0.08, num_leaves=15, min_child_samples=5, n_jobs=1, verbose=-1
    ).fit(setting.Z[0][known], np.log(data.T[1][known]))
    np.testing.assert_allclose(found[0, 1], plain.predict(setting.Z[0]), rtol=1e-9)


def test_a_platform_without_lightgbm_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(SettingsError, match=r"mfcp\[baselines\]"):
        BoostedTrees().fit(training_data(toy_setting(seeds=(0,)), 3))


def test_a_cluster_without_a_task_outside_of_a_fold_says_what_to_do():
    data = training_data(toy_setting(seeds=(0,)), 3)
    train = data.train.copy()
    train[0, 1, data.fold[0] != 0] = False
    with pytest.raises(DataError, match=r"boosted_trees: 0 tasks of a cluster.*raise pool\.min_tasks_per_cluster"):
        BoostedTrees(trees=5).fit(replace(data, train=train))


def test_one_tree_is_a_regression_tree():
    """Every leaf says the mean log time of its training tasks."""
    setting = toy_setting(seeds=(0,))
    data = training_data(setting, 3)
    found, _ = BoostedTrees(trees=1, lr=1.0, leaves=6).fit(data).model(TaskInputs(torch.as_tensor(setting.Z)))
    for i in range(setting.clusters):
        known, told = data.train[0, i], found[0, i].numpy()
        assert 2 <= len(np.unique(told)) <= 6
        for value in np.unique(told[known]):
            np.testing.assert_allclose(np.log(data.T[i][known & (told == value)]).mean(), value)

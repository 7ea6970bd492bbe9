"""Nearest tasks: against a loop over tasks."""

import numpy as np
import torch
from toy import toy_setting

from mfcp.methods.pretrain import training_data
from mfcp.predictors.forecast import TaskInputs
from mfcp.predictors.nearest import Nearest


def test_predictions_are_means_over_the_nearest_known_tasks():
    setting = toy_setting(seeds=(0, 3))
    data = training_data(setting, 3)
    fitted = Nearest(neighbours=4).fit(data)
    log_t, a = fitted.model(TaskInputs.of(setting.Z, None))
    for s, i, task in ((0, 0, 1), (1, 1, 5), (1, 0, 0)):
        distance = np.linalg.norm(setting.Z[s] - setting.Z[s][task], axis=1)
        rows = np.flatnonzero(data.train[s, i])
        near = rows[np.argsort(distance[rows], kind="stable")[:4]]
        assert np.isclose(log_t[s, i, task], np.log(data.T[i, near]).mean())
        assert np.isclose(a[s, i, task], np.clip(data.A[i, near].mean(), 1e-3, 1 - 1e-3))
        own = data.fold[s, task]
        if own >= 0:
            rows = rows[data.fold[s, rows] != own]
            near = rows[np.argsort(distance[rows], kind="stable")[:4]]
            assert np.isclose(fitted.out_of_fold.log_time[s, i, task], np.log(data.T[i, near]).mean())


def test_fewer_tasks_than_neighbours_are_all_averaged():
    setting = toy_setting(seeds=(0,))
    data = training_data(setting, 3)
    log_t, _ = Nearest(neighbours=10_000).fit(data).model(TaskInputs(torch.as_tensor(setting.Z)))
    known = data.train[0, 0]
    np.testing.assert_allclose(log_t[0, 0], np.log(data.T[0][known]).mean())

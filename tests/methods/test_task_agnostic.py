"""TAM: one time and one reliability per cluster, the means over training tasks."""

from dataclasses import replace

import numpy as np
import pytest
from methods.rows import FINETUNE

from mfcp.methods.base import Method

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


def test_every_task_takes_the_means_of_the_training_tasks(setting, base):
    T, A = Method.parse("task_agnostic").fit(setting, base, FINETUNE).predict(setting)
    for s in range(2):
        for i in range(setting.clusters):
            own = setting.mask("train")[s, i]
            np.testing.assert_allclose(T[s, i], setting.T[i, own].mean(), rtol=1e-9)
            np.testing.assert_allclose(A[s, i], setting.A[i, own].mean(), rtol=1e-6)


def test_a_cluster_that_has_run_no_training_task_is_like_the_others(setting, base):
    allowed = setting.allowed.copy()
    allowed[2, (setting.split == 0).any(axis=0)] = False
    thin = replace(setting, allowed=allowed)
    model = Method.parse("task_agnostic").fit(thin, base, FINETUNE)
    T, _ = model.predict(thin)
    known = thin.mask("train")[0]
    np.testing.assert_allclose(T[0, 2], setting.T[known].mean(), rtol=1e-9)
    assert model.plan(thin, thin.rounds("test", 5)).min() >= 0

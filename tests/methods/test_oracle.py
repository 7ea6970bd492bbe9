"""Oracles know the truth of what they say they know, and predict the rest."""

import numpy as np
import pytest
from methods.rows import FINETUNE

from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.methods.base import Method

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


def test_oracles_of_forecasts_know_the_truth_of_learned_tasks_too(setting, base):
    trained = Method.parse({"kind": "oracle", "knows": "time", "forecasts": ["nets"]}).fit(setting, base, FINETUNE)
    T, A = trained.predict(setting)
    there = np.broadcast_to(setting.allowed, T.shape)
    np.testing.assert_allclose(T[there], np.broadcast_to(setting.T_true, T.shape)[there], rtol=1e-12)
    learned = ((setting.split == 0) | (setting.split == 1))[:, None] & there
    np.testing.assert_array_equal(A[learned], base.forecasts["nets"].out_of_fold.reliability[learned])


def test_oracles_know_what_they_say_they_know(setting, base):
    allowed = np.broadcast_to(setting.allowed, (len(setting.seeds), *setting.allowed.shape))
    plain = Method.parse("two_stage").fit(setting, base, FINETUNE).predict(setting)
    truth = [np.broadcast_to(x, allowed.shape) for x in (setting.T_true, setting.A_true)]
    for knows, known in (("time", (True, False)), ("reliability", (False, True)), ("both", (True, True))):
        trained = Method.parse({"kind": "oracle", "knows": knows, "rule": "expected_cost"}).fit(setting, base, FINETUNE)
        for value, true, predicted, is_known in zip(trained.predict(setting), truth, plain, known, strict=True):
            np.testing.assert_array_equal(value[allowed], (true if is_known else predicted)[allowed])
        assert (trained.calibration.log_sd == 0).all() == known[0]
        assert (trained.calibration.a_sd == 0).all() == known[1]
    reference = Reference.of(setting, 50)
    best = round_metrics(trained.plan(setting, reference.rounds), reference, price=setting.price)
    assert best["penalised_excess"].max() < 1e-9  # both known, at the metric's own price: nothing is left to lose

"""Details of a comparison: errors against plain loops, examples against the rounds that they are of."""

import numpy as np
import pandas as pd
import pytest
from toy import toy_study

from mfcp.evaluation.details import calibration, details, prediction_errors
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.methods.base import FinetuneSettings, Method, register_members
from mfcp.methods.pretrain import PretrainSettings, pretrain
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.linear import Linear
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings


@pytest.fixture(scope="module")
def found():
    register_members()
    study = toy_study()
    setting = solved_setting(study, next(iter(study.settings)), RoundSettings(tasks=3, validation_rounds=20), price=4.0)
    base = pretrain(setting, PretrainSettings(predictor=Linear(), training=HeadTraining(epochs=20)))
    methods = {
        "tsm": Method.parse({"kind": "two_stage", "loss": "time"}),
        "bayes": Method.parse({"kind": "two_stage", "rule": "expected_cost"}),
    }
    trained = {label: method.fit(setting, base, FinetuneSettings()) for label, method in methods.items()}
    rounds, _ = evaluate(setting, trained, EvaluateSettings(rounds=20))
    return setting, trained, rounds, details(setting, trained, rounds)


def test_errors_are_those_of_unseen_pairs_one_by_one(found):
    setting, trained, _, told = found
    for label, model in trained.items():
        T, A = model.predict(setting)
        factors, inside, off = [], [], []
        for s, part in enumerate(setting.split):
            for i in range(setting.clusters):
                for j in np.flatnonzero(part == 2):
                    if setting.allowed[i, j]:
                        ratio = T[s, i, j] / setting.T_true[i, j]
                        factors.append(max(ratio, 1 / ratio))
                        inside.append(abs(np.log(ratio)) <= 1.959964 * model.calibration.log_sd[s, i])
                        off.append(A[s, i, j] - setting.A_true[i, j])
        own = told["predictions"][label]
        assert own["factor"] == pytest.approx(np.median(factors), rel=0.01)  # of an even number, other middles
        assert own["factor_95"] == pytest.approx(np.quantile(factors, 0.95), rel=0.05)
        assert own["reliability_rms"] == pytest.approx(np.sqrt(np.mean(np.square(off))))
        if label == "tsm":
            assert own["inside"] is None
        else:
            assert own["inside"] == pytest.approx(np.mean(inside))


def test_the_truth_itself_is_off_by_nothing(found):
    setting, trained, *_ = found

    class Oracle:
        calibration = trained["bayes"].calibration

        def predict(self, setting):
            shape = (len(setting.seeds), *setting.T_true.shape)
            return np.broadcast_to(setting.T_true, shape), np.broadcast_to(setting.A_true, shape)

    own = prediction_errors(setting, Oracle())
    assert (own["factor"], own["factor_95"], own["inside"], own["reliability_rms"]) == (1.0, 1.0, 1.0, 0.0)
    assert all(predicted == pytest.approx(true) for predicted, true in own["calibration"])


def test_bins_hold_every_prediction_once_in_order():
    rng = np.random.default_rng(0)
    predicted, true = rng.random(103), rng.random(103)
    bins = calibration(predicted, true)
    assert [one for one, _ in bins] == sorted(one for one, _ in bins)
    sizes = [11] * 3 + [10] * 7
    assert np.dot(sizes, [one for one, _ in bins]) == pytest.approx(predicted.sum())
    assert np.dot(sizes, [other for _, other in bins]) == pytest.approx(true.sum())
    assert calibration(predicted[:4], true[:4])[0][0] == predicted[:4].min()  # fewer than bins


def test_examples_are_rounds_as_they_were_judged(found):
    setting, _, rounds, told = found
    assert set(told["examples"]) == {"bayes"}
    table = rounds.set_index(["method", "seed", "round"])
    shown = told["examples"]["bayes"]
    assert shown
    gains = []
    for one in shown:
        for role, label in (("baseline", "tsm"), ("method", "bayes")):
            row, plan = table.loc[(label, one["seed"], one["round"])], one[role]
            ends = [sum(t for c, t in zip(plan["cluster"], plan["seconds"], strict=True) if c == i) for i in range(3)]
            assert max(ends) == pytest.approx(row["makespan"])
            assert plan["reliability"] == pytest.approx(row["reliability"])
        pair = [table.loc[(label, one["seed"], one["round"]), "penalised_excess"] for label in ("tsm", "bayes")]
        assert one["gain"] == pytest.approx(pair[0] - pair[1])
        gains.append(one["gain"])
    every = table["penalised_excess"].unstack("method")
    assert max(gains) == pytest.approx((every["tsm"] - every["bayes"]).max())
    assert told["clusters"] == list(setting.cluster_id)


def test_optima_of_small_rounds_are_proven(found):
    solver = found[3]["solver"]
    assert solver["engine"] == "enumerate"
    assert solver["proven"] + solver["short"] == pytest.approx(1.0)
    assert isinstance(solver["rounds"], int)


def test_without_a_baseline_there_are_no_examples(found):
    setting, trained, rounds, _ = found
    alone = {"bayes": trained["bayes"]}
    own = pd.DataFrame(rounds[rounds["method"] == "bayes"])
    assert details(setting, alone, own)["examples"] == {}

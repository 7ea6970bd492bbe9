"""A real, small comparison of methods on the toy study, made once per worker."""

import pytest
from toy import toy_study

from mfcp.evaluation.compare import summarise
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.methods.base import FinetuneSettings, Method, register_members
from mfcp.methods.pretrain import PretrainSettings, pretrain
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.linear import Linear
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings


@pytest.fixture(scope="session")
def compared():
    register_members()
    import pandas as pd

    study = toy_study()
    tables, history = [], {}
    for name in study.settings:
        setting = solved_setting(study, name, RoundSettings(tasks=3, validation_rounds=20), price=4.0)
        base = pretrain(setting, PretrainSettings(predictor=Linear(), training=HeadTraining(epochs=20)))
        models = {
            "tsm": Method.parse({"kind": "two_stage", "loss": "time"}),
            "mfcp_ad": Method.parse("decision_focused"),
            "tsm_log_bayes": Method.parse({"kind": "two_stage", "rule": "expected_cost"}),
        }
        trained = {
            k: m.fit(setting, base, FinetuneSettings(steps=4, rounds=4, check_every=2)) for k, m in models.items()
        }
        tables.append(evaluate(setting, trained, EvaluateSettings(rounds=20)))
        history |= {f"{name}/{k}": t.history for k, t in trained.items()}
    return summarise(*(pd.concat(part) for part in zip(*tables, strict=True)), bootstrap=100), history

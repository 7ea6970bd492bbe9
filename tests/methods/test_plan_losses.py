"""Training through losses over plans, on the toy pool."""

from __future__ import annotations

import numpy as np
import pytest
from toy import toy_setting

from mfcp.errors import SettingsError
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.regret import penalised_cost
from mfcp.methods.base import FinetuneSettings, Method
from mfcp.methods.pretrain import PretrainSettings, pretrain
from mfcp.methods.surrogates import PlanLoss
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp
from mfcp.study.setting import RoundSettings


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def base(setting):
    """Heads that have hardly been trained: there is something left to learn."""
    settings = PretrainSettings(
        predictor=Mlp(hidden=8), training=HeadTraining(epochs=15, lr=0.02), calibrated=(), folds=2
    )
    return pretrain(setting, settings)


class TestTraining:
    @pytest.mark.parametrize("kind", PlanLoss.members)
    def test_it_lowers_the_validation_cost(self, setting, base, kind):
        before = Method.parse({"kind": "two_stage", "rule": "priced"}).fit(setting, base, FinetuneSettings())
        method = Method.parse({"kind": "plan_loss", "surrogate": kind})
        after = method.fit(setting, base, FinetuneSettings(steps=24, rounds=16, check_every=6))
        rounds = setting.rounds("validation", setting.matching.validation_rounds)
        truth = setting.problem(rounds)
        unit = solve_or_fall_back(truth).makespan

        def cost(trained):
            plans = trained.plan(setting, rounds)
            return penalised_cost(plans, truth, price=setting.price, unit=unit).reshape(len(setting.seeds), -1).mean(1)

        assert cost(after).mean() < cost(before).mean()
        seen = after.history["validation.penalised_cost"].min(axis=1)
        np.testing.assert_allclose(cost(after), np.minimum(seen, cost(before)))  # the best checkpoint of its own rule

    def test_parallel_execution_is_trained_for(self, base):
        parallel = toy_setting(settings=RoundSettings(tasks=4, validation_rounds=40, regime="parallel"))
        method = Method.parse("plan_loss")
        trained = method.fit(parallel, base, FinetuneSettings(steps=5, rounds=8, check_every=5))
        sequential = method.fit(toy_setting(), base, FinetuneSettings(steps=5, rounds=8, check_every=5))
        curves = [x.history["train.cost"] for x in (trained, sequential)]
        assert not np.allclose(*curves)

    def test_too_many_plans_are_refused_with_advice(self, base):
        many = toy_setting(settings=RoundSettings(tasks=9, validation_rounds=10))
        with pytest.raises(SettingsError, match=r"all 3\^9 plans of a round, at most 10000; lower finetune\.tasks"):
            Method.parse("plan_loss").fit(many, base, FinetuneSettings())

"""What every registered method must keep, whatever it learns: one contract, all members."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.errors import DataError, SettingsError
from mfcp.evaluation.metrics import EvaluateSettings, Reference, evaluate, round_metrics
from mfcp.methods.base import FinetuneSettings, Method, Trained, register_members
from mfcp.methods.pretrain import Pretrained, PretrainSettings, pretrain, spread_of
from mfcp.predictors.cross_fitted import CrossFitted
from mfcp.predictors.gaussian_process import GaussianProcess
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp
from mfcp.rules.base import Rule

register_members()
ROWS = {f"{kind}": {"kind": kind} for kind in Method.members} | {
    "two_stage_time": {"kind": "two_stage", "loss": "time"},
    "zeroth_order": {"kind": "decision_focused", "gradient": {"kind": "zeroth_order", "samples": 4}},
    "total_cost": {"kind": "decision_focused", "cost": "total"},
    "hard_penalty": {"kind": "decision_focused", "penalty": "hard"},
    "expected_softmin": {"kind": "plan_loss", "surrogate": "softmin", "rule": "expected_cost"},
    "relaxed_objective": {"kind": "decision_focused", "upper": "objective"},
    "ensemble": {"kind": "plan_loss", "surrogate": "listwise", "forecast": "nets", "rule": "expected_cost"},
    "perturbed": {"kind": "plan_loss", "surrogate": {"kind": "perturbed", "samples": 4}},
    **{f"two_stage_{rule}": {"kind": "two_stage", "rule": {"kind": rule}} for rule in Rule.members},
}
HEADS = {"predictor": Mlp(hidden=8), "training": HeadTraining(epochs=60, lr=0.02)}
PRETRAIN = PretrainSettings(**HEADS, folds=3, forecasts={"nets": CrossFitted(**HEADS)})
FINETUNE = FinetuneSettings(steps=12, rounds=8, check_every=4)

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def base(setting):
    return pretrain(setting, PRETRAIN)


@pytest.fixture(scope="module")
def trained(setting, base):
    return {label: Method.parse(row).fit(setting, base, FINETUNE) for label, row in ROWS.items()}


@pytest.mark.parametrize("label", ROWS)
class TestContract:
    def test_predictions_are_times_and_probabilities_of_every_task(self, setting, trained, label):
        T, A = trained[label].predict(setting)
        assert T.shape == A.shape == (len(setting.seeds), setting.clusters, setting.Z.shape[1])
        assert np.isfinite(T).all()
        assert (T > 0).all()
        assert ((A >= 0) & (A <= 1)).all()

    def test_plans_use_only_pairs_that_exist(self, setting, trained, label):
        rounds = setting.rounds("test", 50)
        plan = trained[label].plan(setting, rounds)
        assert plan.shape == (len(setting.seeds) * 50, setting.matching.tasks)
        allowed = setting.problem(rounds).allowed
        assert np.take_along_axis(allowed, plan[:, None], axis=1).all()

    def test_a_seed_does_not_depend_on_its_company(self, trained, label):
        alone = toy_setting(seeds=(1,))
        own = Method.parse(ROWS[label]).fit(alone, pretrain(alone, PRETRAIN), FINETUNE)
        together = trained[label]
        setting = toy_setting()
        for one, two in zip(own.predict(alone), together.predict(setting), strict=True):
            np.testing.assert_allclose(one[0], two[1], rtol=1e-3)
        assert own.parameter[0] == together.parameter[1]

    def test_it_is_deterministic(self, setting, base, trained, label):
        again = Method.parse(ROWS[label]).fit(setting, base, FINETUNE)
        for one, two in zip(again.predict(setting), trained[label].predict(setting), strict=True):
            np.testing.assert_array_equal(one, two)

    def test_it_survives_the_disk(self, setting, trained, label, tmp_path):
        trained[label].save(tmp_path, "A", setting)
        back = Trained.load(tmp_path, "A")
        rounds = setting.rounds("test", 30)
        np.testing.assert_array_equal(back.plan(setting, rounds), trained[label].plan(setting, rounds))
        assert back.method == trained[label].method

    def test_it_beats_random_plans(self, setting, trained, label):
        reference = Reference.of(setting, 100)
        rng = np.random.default_rng(0)
        random = (rng.random(reference.truth.T.shape) * reference.truth.allowed).argmax(axis=1)
        by_chance = round_metrics(random, reference, price=4.0)["penalised_excess"].mean()
        own = round_metrics(trained[label].plan(setting, reference.rounds), reference, price=4.0)
        assert own["penalised_excess"].mean() < 0.9 * by_chance

    def test_it_leaves_the_pretrained_heads_alone(self, setting, base, label):
        models = (base.heads["log_time"], base.forecasts["nets"].model)
        before = [{k: v.clone() for k, v in model.state_dict().items()} for model in models]
        Method.parse(ROWS[label]).fit(setting, base, FINETUNE)
        for model, own in zip(models, before, strict=True):
            for key, value in model.state_dict().items():
                torch.testing.assert_close(value, own[key], rtol=0, atol=0)


def test_labels_of_test_tasks_do_not_reach_what_is_learned(setting, base, trained):
    """Scrambled labels of test tasks leave every prediction and parameter as it was."""
    T, A = setting.T.copy(), setting.A.copy()
    test = setting.split[0] == 2
    T[:, test], A[:, test] = T[:, test] * 37.0, 0.01
    one = toy_setting(seeds=(0,))
    spoiled = replace(one, T=T, A=A)
    for label in ("two_stage_expected_cost", "decision_focused", "two_stage_margin"):
        method = Method.parse(ROWS[label])
        clean = method.fit(one, pretrain(one, PRETRAIN), FINETUNE)
        dirty = method.fit(spoiled, pretrain(spoiled, PRETRAIN), FINETUNE)
        for x, y in zip(clean.predict(one), dirty.predict(one), strict=True):
            np.testing.assert_array_equal(x, y)
        assert clean.parameter == dirty.parameter


def test_networks_of_an_ensemble_learn_nothing_of_the_fold_they_left_out(setting, base):
    """Other labels there, and the others' starting point as it was: that network stays, the others do not."""
    fold = base.fold(setting)
    T = setting.T.copy()
    T[:, fold[0] == 0] *= 3.0
    spoiled = replace(setting, T=T)
    method = Method.parse({"kind": "plan_loss", "forecast": "nets"})
    clean, dirty = (method.fit(each, base, FINETUNE).heads.models["nets"].heads for each in (setting, spoiled))
    Z = torch.as_tensor(setting.Z).repeat_interleave(3, 0)
    with torch.no_grad():
        differs = [(x != y).flatten(1).any(1) for x, y in zip(clean(Z), dirty(Z), strict=True)]
    assert not any(each[0] for each in differs)
    assert any(each[1] for each in differs)


def test_an_ensemble_is_calibrated_on_what_its_networks_left_out_as_they_are_in_the_end(setting, base, trained):
    own = trained["ensemble"]
    left_out = own.heads.models["nets"].left_out(setting.Z, base.fold(setting))
    assert own.calibration.log_sd == pytest.approx(spread_of(setting, *left_out).log_sd)
    start = spread_of(setting, *base.left_out(("nets",)))
    assert (own.calibration.log_sd != start.log_sd).all()


def test_an_ensemble_needs_cross_fitted_networks(setting, base):
    for name, said in (("trees", "lacks 'trees'"), ("gp", "'gp' is no cross-fitted one")):
        forecasts = base.forecasts | {"gp": replace(base.forecasts["nets"], model=torch.nn.Identity())}
        settings = base.settings.model_copy(update={"forecasts": base.settings.forecasts | {"gp": GaussianProcess()}})
        method = Method.parse({"kind": "plan_loss", "forecast": name})
        with pytest.raises(SettingsError, match=said):
            method.fit(setting, replace(base, settings=settings, forecasts=forecasts), FINETUNE)


def test_rounds_to_train_on_may_be_smaller_than_those_to_match(setting, base):
    size = setting.matching.tasks
    small = FINETUNE.model_copy(update={"tasks": size - 1})
    for row in ({"kind": "plan_loss"}, {"kind": "decision_focused"}):
        own = Method.parse(row).fit(setting, base, small)
        assert own.plan(setting, setting.rounds("test", 10)).shape[1] == size
        usual = Method.parse(row).fit(setting, base, FINETUNE)
        assert (own.history["train.cost"] != usual.history["train.cost"]).any()


def test_decision_focused_training_lowers_the_cost_it_trains_for(setting, base):
    method = Method.parse({"kind": "decision_focused"})
    trained = method.fit(setting, base, FinetuneSettings(steps=60, rounds=16, check_every=10))
    cost = trained.history["train.cost"]
    assert (cost[:, -15:].mean(axis=1) < cost[:, :15].mean(axis=1)).all()


def test_pretrained_survives_the_disk(setting, base, tmp_path):
    base.save(tmp_path, "A")
    back = Pretrained.load(tmp_path, "A", setting)
    assert back.settings == base.settings
    np.testing.assert_array_equal(back.spread("log_time").a_sd, base.spread("log_time").a_sd)
    for key, value in base.heads["time"].state_dict().items():
        torch.testing.assert_close(back.heads["time"].state_dict()[key], value, rtol=0, atol=0)


@pytest.mark.parametrize("damage", ["truncate", "remove", "garbage"])
def test_a_damaged_model_is_refused(setting, base, trained, tmp_path, damage):
    trained["two_stage"].save(tmp_path, "A", setting)
    path = tmp_path / "A.safetensors"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "remove":
        path.unlink()
    else:
        path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(DataError, match="run the finetune stage again"):
        Trained.load(tmp_path, "A")


def test_missing_loss_or_calibration_names_the_key(setting, base):
    bare = Pretrained(base.settings, {}, {}, {})
    with pytest.raises(SettingsError, match=r"pretrain\.losses lacks 'log_time'"):
        Method.parse("two_stage").fit(setting, bare, FINETUNE)
    heads_only = Pretrained(base.settings, base.heads, {}, {})
    with pytest.raises(SettingsError, match=r"pretrain\.calibrated lacks"):
        Method.parse(ROWS["two_stage_expected_cost"]).fit(setting, heads_only, FINETUNE)


def test_evaluation_covers_every_metric_and_is_zero_for_an_oracle(setting, trained):
    rounds, seeds = evaluate(setting, {"tsm": trained["two_stage_time"]}, EvaluateSettings(rounds=20))
    assert len(rounds) == 20 * len(setting.seeds)
    assert (rounds["penalised_excess"] >= 0).all()
    reference = Reference.of(setting, 20)
    oracle = round_metrics(reference.optimal, reference, price=4.0)
    assert (oracle["regret"] == 0).all()
    assert oracle["shortfall"].max() == 0
    from mfcp.evaluation.metric_table import METRICS

    assert set(METRICS) <= set(seeds.columns)


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

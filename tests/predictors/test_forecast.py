"""Forecasters: what they say of unseen families, out of fold, alone and together, and after the disk."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.errors import SettingsError
from mfcp.methods.base import FinetuneSettings, Method, Trained, register_members
from mfcp.methods.pretrain import Pretrained, PretrainSettings, pretrain, training_data
from mfcp.predictors.forecast import Forecaster, Mixture, OutOfFold, TaskInputs, stacking_weights
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp

register_members()
TRAINING = HeadTraining(epochs=40, lr=0.02)
QUICK = {
    "cross_fitted": {"predictor": Mlp(hidden=6), "training": TRAINING},
    "gaussian_process": {"steps": 15, "sample": 40},
    "boosted_trees": {"trees": 20},
    "operator_times": {"fallback": {"kind": "gaussian_process", "steps": 15, "sample": 40}},
}
MEMBERS = {name: Forecaster.build(name, **QUICK.get(name, {})) for name in Forecaster.members}

pytestmark = pytest.mark.xdist_group("forecasts")  # one worker makes what they share


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module", params=["held_out", "learned"])
def known(request, setting):
    """What forecasts learn where labels of validation tasks are held out, and where they are learned."""
    return training_data(setting, 3, request.param)


@pytest.fixture(scope="module")
def fitted(known):
    return {name: member.fit(known) for name, member in MEMBERS.items()}


def predict(model, setting):
    with torch.no_grad():
        return tuple(x.numpy() for x in model(TaskInputs.of(setting.Z, setting.operator_times)))


@pytest.mark.parametrize("name", MEMBERS)
class TestContract:
    def test_it_predicts_unseen_families_better_than_a_mean(self, setting, fitted, name):
        log_t, a = predict(fitted[name].model, setting)
        test = setting.mask("test")
        label = np.log(np.where(setting.allowed, setting.T, 1.0))
        mean = [np.mean(label[i][setting.mask("train")[s, i]]) for s in range(2) for i in range(setting.clusters)]
        plain = label - np.reshape(mean, (2, -1, 1))
        assert (((log_t - label) ** 2)[test]).mean() < 0.5 * (plain**2)[test].mean()
        assert ((a > 0) & (a < 1)).all()

    def test_out_of_fold_values_do_not_know_their_own_label(self, known, fitted, name):
        """A task's label, however wrong, leaves its own out-of-fold prediction of a fixed model as it was."""
        task = int(np.flatnonzero(known.fold[0] == 1)[0])
        T = known.T.copy()
        T[:, task] *= 1.001  # small: lengths and variances of the process hardly move
        changed = MEMBERS[name].fit(replace(known, T=T))
        own = np.abs(changed.out_of_fold.log_time - fitted[name].out_of_fold.log_time)[0, :, task].max()
        assert own < 2e-4, own

    def test_only_tasks_to_learn_from_have_out_of_fold_values(self, known, fitted, name):
        found = fitted[name].out_of_fold
        np.testing.assert_array_equal(found.known, known.fold >= 0)
        inside = np.broadcast_to(found.known[:, None], found.log_time.shape)
        assert (found.log_time[~inside] == 0).all()
        assert (found.log_time[inside] != 0).mean() > 0.99

    def test_labels_of_other_tasks_leave_no_trace(self, known, fitted, name):
        """Those of test tasks, and of validation tasks where they are held out, do not change a prediction."""
        other = (known.fold < 0) & ~known.validation.any(1)
        T, A = np.where(other.all(0), known.T * 7, known.T), np.where(other.all(0), 0.5, known.A)
        assert other.all(0).any()
        again = MEMBERS[name].fit(replace(known, T=T, A=A))
        for key, value in again.model.state_dict().items():
            np.testing.assert_array_equal(value, fitted[name].model.state_dict()[key])

    def test_a_seed_does_not_depend_on_its_company(self, known, fitted, setting, name):
        alone = toy_setting(seeds=(1,))
        own = MEMBERS[name].fit(training_data(alone, 3, "held_out" if known.validation.any() else "learned"))
        for one, two in zip(predict(own.model, alone), predict(fitted[name].model, setting), strict=True):
            np.testing.assert_allclose(one[0], two[1], rtol=1e-3, atol=1e-3)

    def test_its_state_restores_it(self, setting, fitted, name):
        state = {key: value.clone() for key, value in fitted[name].model.state_dict().items()}
        back = MEMBERS[name].restored(state)
        for one, two in zip(predict(back, setting), predict(fitted[name].model, setting), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_mixture_is_the_weighted_mean_of_log_times_and_probabilities(setting, fitted):
    names = ("cross_fitted", "gaussian_process")
    weight = np.array([[0.3, 0.7], [1.0, 0.0]]), np.array([[0.5, 0.5], [0.9, 0.1]])
    models = {name: fitted[name].model for name in names}
    mixture = Mixture({name: MEMBERS[name] for name in names}, models, *map(torch.as_tensor, weight))
    T, A = predict(mixture, setting)
    parts = [predict(fitted[name].model, setting) for name in names]
    for s in range(2):
        np.testing.assert_allclose(np.log(T[s]), sum(w * p[0][s] for w, p in zip(weight[0][s], parts, strict=True)))
        np.testing.assert_allclose(A[s], sum(w * p[1][s] for w, p in zip(weight[1][s], parts, strict=True)))
    left_out = [fitted[name].out_of_fold for name in names]
    both = OutOfFold.weighted(left_out, *weight)
    np.testing.assert_allclose(both.log_time[0], 0.3 * left_out[0].log_time[0] + 0.7 * left_out[1].log_time[0])
    np.testing.assert_allclose(both.reliability[1], 0.9 * left_out[0].reliability[1] + 0.1 * left_out[1].reliability[1])


def test_stacking_weights_are_those_of_least_error():
    """Against a grid over the simplex: two useful predictors, and one that is noise."""
    rng = np.random.default_rng(0)
    labels = rng.normal(size=400)
    predictions = np.stack([labels + rng.normal(0, 0.3, 400), labels + rng.normal(0, 0.6, 400), rng.normal(size=400)])
    found = stacking_weights(predictions, labels)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    grid = [np.array([a, b, 100 - a - b]) / 100 for a in range(101) for b in range(101 - a)]
    least = min(grid, key=lambda w: ((w @ predictions - labels) ** 2).mean())
    assert found == pytest.approx(least, abs=0.01)


def test_weights_choose_the_better_forecast_of_times(setting, base):
    """The forecast by operators knows toy times within 5 %; equal weights are there for who asks for them."""
    row = {"kind": "two_stage", "forecasts": ["cross_fitted", "operator_times"]}
    own, equal = (
        Method.parse(row | {"weights": kind}).fit(setting, base, FinetuneSettings())
        for kind in ("out_of_fold", "equal")
    )
    assert (own.heads.time_weight[:, 1] > 0.8).all()
    assert (equal.heads.time_weight == 0.5).all()


@pytest.fixture(scope="module")
def base(setting):
    settings = PretrainSettings(
        predictor=Mlp(hidden=6), training=TRAINING, folds=3, forecasts={k: v.spec() for k, v in MEMBERS.items()}
    )
    return pretrain(setting, settings)


def test_forecasts_survive_the_disk_with_their_pretraining(setting, base, tmp_path):
    base.save(tmp_path, "A")
    back = Pretrained.load(tmp_path, "A", setting)
    assert back.settings == base.settings
    for name, forecast in base.forecasts.items():
        for key, value in vars(forecast.out_of_fold).items():
            np.testing.assert_array_equal(getattr(back.forecasts[name].out_of_fold, key), value)
        for one, two in zip(
            predict(back.forecasts[name].model, setting), predict(forecast.model, setting), strict=True
        ):
            np.testing.assert_array_equal(one, two)


def test_a_method_of_forecasts_survives_the_disk(setting, base, tmp_path):
    row = {"kind": "two_stage", "forecasts": list(MEMBERS), "rule": "expected_cost"}
    trained = Method.parse(row).fit(setting, base, FinetuneSettings())
    assert (trained.calibration.log_sd > 0).all()
    trained.save(tmp_path, "A", setting)
    rounds = setting.rounds("test", 20)
    np.testing.assert_array_equal(Trained.load(tmp_path, "A").plan(setting, rounds), trained.plan(setting, rounds))


def test_an_unknown_forecast_names_what_there_is(setting, base):
    row = {"kind": "two_stage", "forecasts": ["oracle"]}
    with pytest.raises(SettingsError, match=r"pretrain\.forecasts lacks 'oracle'.*gaussian_process"):
        Method.parse(row).fit(setting, base, FinetuneSettings())

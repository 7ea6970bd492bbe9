"""Forecasters: what they say of unseen families, out of fold, alone and together, and after the disk."""

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.errors import SettingsError
from mfcp.methods.base import FinetuneSettings, Method, Trained, register_members
from mfcp.methods.pretrain import Pretrained, PretrainSettings, pretrain, training_data
from mfcp.predictors.forecast import Forecaster, Mixture
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp

register_members()
TRAINING = HeadTraining(epochs=40, lr=0.02)
QUICK = {
    "cross_fitted": {"predictor": Mlp(hidden=6), "training": TRAINING},
    "gaussian_process": {"steps": 15, "sample": 40},
    "boosted_trees": {"trees": 20},
}
MEMBERS = {name: Forecaster.build(name, **QUICK.get(name, {})) for name in Forecaster.members}

pytestmark = pytest.mark.xdist_group("forecasts")  # one worker makes what they share


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def known(setting):
    return training_data(setting, 3)


@pytest.fixture(scope="module")
def fitted(known):
    return {name: member.fit(known) for name, member in MEMBERS.items()}


def predict(model, Z):
    with torch.no_grad():
        return tuple(x.numpy() for x in model(torch.as_tensor(Z)))


@pytest.mark.parametrize("name", MEMBERS)
class TestContract:
    def test_it_predicts_unseen_families_better_than_a_mean(self, setting, fitted, name):
        log_t, a = predict(fitted[name].model, setting.Z)
        test = setting.mask("test")
        label = np.log(np.where(setting.allowed, setting.T, 1.0))
        mean = [np.mean(label[i][setting.mask("train")[s, i]]) for s in range(2) for i in range(setting.clusters)]
        plain = label - np.reshape(mean, (2, -1, 1))
        assert (((log_t - label) ** 2)[test]).mean() < 0.5 * (plain**2)[test].mean()
        assert ((a > 0) & (a < 1)).all()

    def test_out_of_fold_values_do_not_know_their_own_label(self, known, fitted, name):
        """A training task's label, however wrong, leaves its own out-of-fold prediction of a fixed model as it was."""
        from dataclasses import replace

        task = int(np.flatnonzero(known.fold[0] == 1)[0])
        T = known.T.copy()
        T[:, task] *= 1.001  # small: lengths and variances of the process hardly move
        changed = MEMBERS[name].fit(replace(known, T=T))
        own = np.abs(changed.log_time - fitted[name].log_time)[0, :, task].max()
        assert own < 2e-4, own

    def test_only_training_tasks_have_out_of_fold_values(self, setting, fitted, name):
        outside = (setting.split != 0)[:, None, :] & np.ones((2, setting.clusters, 1), bool)
        assert (fitted[name].log_time[outside] == 0).all()
        assert (fitted[name].log_time[~outside] != 0).mean() > 0.99

    def test_a_seed_does_not_depend_on_its_company(self, fitted, setting, name):
        alone = toy_setting(seeds=(1,))
        own = MEMBERS[name].fit(training_data(alone, 3))
        for one, two in zip(predict(own.model, alone.Z), predict(fitted[name].model, setting.Z), strict=True):
            np.testing.assert_allclose(one[0], two[1], rtol=1e-3, atol=1e-3)

    def test_its_state_restores_it(self, setting, fitted, name):
        state = {key: value.clone() for key, value in fitted[name].model.state_dict().items()}
        back = MEMBERS[name].restored(state)
        for one, two in zip(predict(back, setting.Z), predict(fitted[name].model, setting.Z), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_mixture_is_the_mean_of_log_times_and_probabilities(setting, fitted):
    names = ("cross_fitted", "gaussian_process")
    mixture = Mixture({name: MEMBERS[name] for name in names}, {name: fitted[name].model for name in names})
    with torch.no_grad():
        T, A = mixture(torch.as_tensor(setting.Z))
    parts = [predict(fitted[name].model, setting.Z) for name in names]
    np.testing.assert_allclose(T.log(), np.mean([p[0] for p in parts], axis=0), rtol=1e-12)
    np.testing.assert_allclose(A, np.mean([p[1] for p in parts], axis=0), rtol=1e-12)


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
        np.testing.assert_array_equal(back.forecasts[name].log_time, forecast.log_time)
        for one, two in zip(
            predict(back.forecasts[name].model, setting.Z), predict(forecast.model, setting.Z), strict=True
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

"""Training for the decision: its rounds, its checkpoints, and ensembles that go on fold by fold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from methods.rows import FINETUNE

from mfcp.errors import SettingsError
from mfcp.methods.base import Method
from mfcp.methods.pretrain import spread_of
from mfcp.predictors.gaussian_process import GaussianProcess

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


def test_networks_of_an_ensemble_learn_nothing_of_the_fold_they_left_out(setting, base):
    """Other labels there, and the others' starting point as it was: that network stays, the others do not."""
    fold = base.fold(setting, "held_out")
    T = setting.T.copy()
    T[:, fold[0] == 0] *= 3.0
    spoiled = replace(setting, T=T)
    method = Method.parse({"kind": "plan_loss", "forecast": "held_out"})
    longer = FINETUNE.model_copy(update={"steps": 60})  # past the first checkpoint that is better than the start
    clean, dirty = (method.fit(each, base, longer).heads.models["held_out"].heads for each in (setting, spoiled))
    Z = torch.as_tensor(setting.Z).repeat_interleave(3, 0)
    with torch.no_grad():
        differs = [(x != y).flatten(1).any(1) for x, y in zip(clean(Z), dirty(Z), strict=True)]
    assert not any(each[0] for each in differs)
    assert any(each[1] for each in differs)


def test_networks_that_learned_validation_labels_choose_checkpoints_on_their_own_fold(setting, base):
    """Labels of another fold's validation tasks are labels to train on; those of its own only choose."""
    fold = base.fold(setting, "nets")
    assert (fold[setting.split == 1] >= 0).all()
    crossed = setting.by_fold(fold)
    for s in range(len(setting.seeds)):
        for f in range(3):
            split = crossed.split[3 * s + f]
            np.testing.assert_array_equal(split == 1, fold[s] == f)
            np.testing.assert_array_equal(split == 0, (fold[s] >= 0) & (fold[s] != f))
            np.testing.assert_array_equal(split == 2, setting.split[s] == 2)


def test_an_ensemble_is_calibrated_on_what_its_networks_left_out_as_they_are_in_the_end(setting, base, trained):
    own = trained["ensemble"]
    left_out = own.heads.models["nets"].left_out(setting.Z, base.fold(setting, "nets"))
    assert own.calibration.log_sd == pytest.approx(spread_of(setting, left_out).log_sd)
    start = spread_of(setting, base.forecasts["nets"].out_of_fold)
    assert (own.calibration.log_sd != start.log_sd).any()


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


def test_the_checkpoint_kept_is_the_one_of_least_validation_cost(setting, base):
    """At a learning rate that ruins the heads, the start is the best that was seen."""
    ruinous = FINETUNE.model_copy(update={"lr": 5.0})
    trained = Method.parse("decision_focused").fit(setting, base, ruinous)
    start = Method.parse({"kind": "two_stage"}).fit(setting, base, FINETUNE)
    assert (trained.history["validation.penalised_cost"].min(axis=1) > 0).all()
    for own, before in zip(trained.predict(setting), start.predict(setting), strict=True):
        np.testing.assert_array_equal(own, before)

"""What every registered method must keep, whatever it learns: one contract, all members."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from methods.rows import FINETUNE, PRETRAIN, ROWS
from toy import toy_setting

from mfcp.errors import DataError
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.methods.base import Method, Trained, points_of
from mfcp.methods.pretrain import pretrain
from mfcp.predictors.residuals import ObservedCells

NO_BETTER = {"task_agnostic": "TAM tells no task from another"} | dict.fromkeys(
    ("as_printed", "two_stage_rounded", "two_stage_rounded_upper_bound"),
    "plans of Algorithm 1 as printed, rounded, are no better than plans at random: benchmarks/printed.py",
)

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


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
        if label in NO_BETTER:
            pytest.skip(NO_BETTER[label])
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


@pytest.mark.parametrize("label", ["ensemble", "corrected", "two_stage_expected_cost"])
def test_what_errors_have_in_common_survives_the_disk_and_moves_only_relatives(setting, trained, label, tmp_path):
    """Nothing observed changes no bit; a run that took twice as long moves its task, and its family at most."""
    model = trained[label]
    model.save(tmp_path, "m", setting)
    read = Trained.load(tmp_path, "m")
    assert len(read.errors) == len(model.errors) == (0 if label == "two_stage_expected_cost" else len(setting.seeds))
    for s in range(len(setting.seeds)):
        assert np.array_equal(read.process(s).total, model.process(s).total)
    rounds = setting.rounds("test", 40)
    before = model.beliefs(setting, rounds)
    points = points_of(setting, 0)
    none = ObservedCells(points.take(np.zeros(0, np.int64)), *(np.zeros(0, kind) for kind in (np.int64, float, float)))
    for one, two in zip(model.beliefs(setting, rounds, [none, none]), before, strict=True):
        assert np.array_equal(one.T, two.T)
        assert np.array_equal(one.own_sd, two.own_sd)
    task = int(rounds[0, 0, 0])
    slow = ObservedCells(points.take(np.array([task])), np.array([1]), np.array([np.log(2)]), np.array([0.05**2]))
    after = read.beliefs(setting, rounds, [slow, none])
    assert np.array_equal(after[1].T, before[1].T)
    own, kin = rounds[0] == task, setting.family[rounds[0]] == setting.family[task]
    factor = (after[0].T / before[0].T).transpose(0, 2, 1)
    assert (factor[own][:, 1] > 1.05).all()
    assert (factor[~kin] == 1).all()


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


@pytest.mark.parametrize("wrong", [{"errors.family": (2, 2, 2)}, {"errors.length": (3,)}, {"errors.near": ()}])
def test_errors_of_another_shape_are_refused(setting, trained, tmp_path, wrong):
    from safetensors.numpy import load_file, save_file

    trained["ensemble"].save(tmp_path, "A", setting)
    arrays = load_file(tmp_path / "A.safetensors")
    save_file(arrays | {name: np.ones(shape) for name, shape in wrong.items()}, tmp_path / "A.safetensors")
    with pytest.raises(DataError, match="not a complete model"):
        Trained.load(tmp_path, "A")


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

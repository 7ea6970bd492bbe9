"""A study survives the disk, and its settings see what the pool knows."""

import json

import numpy as np
import pytest
from toy import toy_study

from mfcp.errors import DataError
from mfcp.study.setting import RoundSettings
from mfcp.study.study_data import Study

ROUNDS = RoundSettings(tasks=4, validation_rounds=40)


def test_it_survives_the_disk(tmp_path):
    study = toy_study()
    study.save(tmp_path)
    back = Study.load(tmp_path)
    assert (back.settings, back.seeds, back.feature_names) == (study.settings, study.seeds, study.feature_names)
    for name in ("Z", "split"):
        np.testing.assert_array_equal(getattr(back, name), getattr(study, name))
    np.testing.assert_array_equal(back.pool.T, study.pool.T)


@pytest.mark.parametrize("damage", ["study.json", "features.safetensors"])
def test_a_damaged_folder_is_named(tmp_path, damage):
    toy_study().save(tmp_path)
    if damage.endswith("json"):
        content = json.loads((tmp_path / damage).read_text())
        del content["seeds"]
        (tmp_path / damage).write_text(json.dumps(content))
    else:
        (tmp_path / damage).write_bytes(b"no tensors")
    with pytest.raises(DataError, match="run the featurize stage again"):
        Study.load(tmp_path)


def test_a_setting_is_the_rows_of_its_clusters_and_leaves_out_tasks_with_nothing_to_match():
    study = toy_study(missing=0.6)
    setting = study.setting("B", ROUNDS, price=4.0)
    np.testing.assert_array_equal(setting.T_true, study.pool.T_true[[1, 2, 3]])
    assert setting.cluster_id == ("cluster1", "cluster2", "cluster3")
    single = setting.allowed.sum(axis=0) < 2
    assert single.any()
    assert (setting.split[:, single] == -1).all()
    assert setting.zeta is None
    parallel = study.setting("B", ROUNDS.model_copy(update={"regime": "parallel"}), price=4.0)
    assert parallel.zeta.shape == (3, 5)

"""Releases: what is learned from a log, kept under hashes, and decides rounds of tasks that the log does not have."""

import hashlib
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log, small_settings

from mfcp.errors import DataError
from mfcp.methods.base import predict
from mfcp.release import model
from mfcp.release.model import Release
from mfcp.study.featurize import PoolFeatures
from mfcp.study.study_pool import build_pool
from mfcp.tasks.features.descriptors import TaskFeatures
from mfcp.tasks.features.encoder import GnnEncoder, NoEncoder
from mfcp.tasks.features.feature_scale import Scale

TABLES = small_log()

pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


def unseen(count=20):
    own = small_log(count, seed=9, start=500)
    return {name: own[name] for name in ("tasks", "nodes", "edges")}


def test_predictions_follow_the_tasks_and_nothing_else(release):
    """A task's prediction depends on its own row and graph: not on its company, its place or its name."""
    tables = unseen()
    whole = release.predict(tables)
    order = np.random.default_rng(0).permutation(len(tables["tasks"]))
    mixed = tables["tasks"].iloc[order].assign(task_id=[f"n{j}" for j in range(len(order))])
    assert np.allclose(release.predict({**tables, "tasks": mixed}).T, whole.T[:, :, order])
    alone = release.predict({**tables, "tasks": tables["tasks"].iloc[[3]]})
    assert np.allclose(alone.T[..., 0], whole.T[..., 3])
    assert np.allclose(alone.A[..., 0], whole.A[..., 3])


def test_predictions_are_near_the_truth_of_the_formula(release):
    tables = unseen()
    kind = tables["tasks"]["graph_id"].str[1].astype(int).to_numpy()
    truth = tables["tasks"]["flops"].to_numpy() / 2e7 * np.where(kind == np.arange(3)[:, None], 0.4, 1.5)
    error = np.log(release.predict(tables).T[0] / truth)
    assert np.abs(error).mean() < 0.25


@pytest.mark.parametrize("lacking", [(), ("flops",), ("graph_id",), ("flops", "graph_id", "domain")])
@pytest.mark.parametrize("encoder", [NoEncoder(), GnnEncoder(steps=3, graphs=2)])
def test_a_task_has_the_same_features_in_training_and_in_serving(lacking, encoder):
    """To the bit, also where every seventh task lacks a figure."""
    tasks = TABLES["tasks"].copy()
    for name in lacking:
        tasks[name] = tasks[name].where(np.arange(len(tasks)) % 7 > 0)
    tables = {**TABLES, "tasks": tasks}
    pool = build_pool(tables, small_settings().section("pool"), seed=0)
    train = np.arange(len(pool.task_id)) < 60
    section = small_settings().section("featurize").model_copy(update={"encoder": encoder})
    described = PoolFeatures.of(tables, pool, section)
    encoded = described.encode(train, 0)
    own = tasks.set_index("task_id").loc[pool.source_task].reset_index()
    served = TaskFeatures.of({**tables, "tasks": own}, own["task_id"].to_numpy(str))
    found = served.under(encoded.names[:-1], encoded.encoder)
    np.testing.assert_array_equal(found, encoded.Z[:, :-1])
    assert np.isfinite(found).all()
    predictor, times = described.operator_times(train, 0)
    again = predictor.log_seconds(served) + np.log(pool.samples)
    np.testing.assert_array_equal(again[:, ~train], times[:, ~train])  # those of learned tasks are out of fold
    assert np.isfinite(times).all(axis=0).tolist() == served.tasks["graph_id"].notna().tolist()


def test_a_release_predicts_from_the_features_that_it_was_trained_on(release, monkeypatch):
    """All of them, scaled, with the work last, and the times by operators: those of the pool, to the bit."""
    pool = build_pool(TABLES, small_settings().section("pool"), seed=0)
    kept = np.isin(pool.source_task, list(release.learned_from))
    own = TABLES["tasks"].set_index("task_id").loc[pool.source_task[kept]].reset_index()
    own["samples"] = pool.samples[kept]
    features = TaskFeatures.of(TABLES, pool.source_task[kept])
    work = np.log(pool.samples[kept])
    trained = features.under(release.feature_names[:-1], release.encoder)
    seen = []
    monkeypatch.setattr(model, "predict", lambda heads, *given: seen.append(given) or predict(heads, *given))
    release.predict({**TABLES, "tasks": own})
    ((Z, times),) = seen
    np.testing.assert_array_equal(Z[0], release.scale.apply(np.column_stack([trained, work])))
    np.testing.assert_array_equal(times[0], release.operators.log_seconds(features) + work)


def test_a_release_keeps_what_its_networks_over_operators_learned(release, folder):
    """They time tasks that the log does not have, on clusters in the order of the release's, and after the disk."""
    tables = unseen()
    features = TaskFeatures.of(tables, tables["tasks"]["task_id"].to_numpy(str))
    log_seconds = release.operators.log_seconds(features)
    assert log_seconds.shape == (len(release.cluster_id), len(tables["tasks"]))
    assert np.isfinite(log_seconds).all()
    back = Release.load(folder).operators.log_seconds(features)
    np.testing.assert_array_equal(back, log_seconds)


def test_work_that_a_task_does_not_state_counts_as_usual(release):
    tables = unseen()
    bare = {**tables, "tasks": tables["tasks"].drop(columns="samples")}
    usual = float(np.exp(release.scale.mean.ravel()[-1]))
    stated = {**tables, "tasks": tables["tasks"].assign(samples=usual)}
    np.testing.assert_allclose(release.predict(bare).T, release.predict(stated).T, rtol=1e-9)


def test_what_a_task_lacks_is_unknown_and_not_another_value():
    names = ("log_flops", "domain=cv", "log_graph_count", "z0")
    tasks = TABLES["tasks"].head(4).assign(flops=[1e9, None, 1e9, 1e9], domain=["cv", "nlp", None, "music"])
    named = TaskFeatures.of({"tasks": tasks}, tasks["task_id"].to_numpy(str))
    Z = named.under(names, None)
    assert Z[:, 0] == pytest.approx([np.log(1e9), np.nan, np.log(1e9), np.log(1e9)], nan_ok=True)
    assert Z[:, 1] == pytest.approx([1, 0, np.nan, 0], nan_ok=True)  # none of the tasks to learn from was silent
    assert named.under(("domain=cv", "domain=unknown"), None).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]
    assert np.isnan(Z[:, 2:]).all()
    flagged = named.under(("log_flops", "no_flops", "no_graph", "log_graph_count"), None)
    assert flagged[1].tolist() == [0, 1, 1, 0]
    scale = Scale(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]))
    assert scale.apply(np.array([[np.nan, 3.0], [5.0, np.nan]])).tolist() == [[0, 0], [2, 0]]


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "release.json"])
def test_a_changed_file_is_refused_by_its_hash(folder, tmp_path, name):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=rf"{name}: damaged or changed, its SHA-256"):
        Release.load(copy)
    path.unlink()
    with pytest.raises(DataError, match=rf"{name}: no such file; expected a whole release"):
        Release.load(copy)


def test_a_manifest_cannot_lead_out_of_the_folder(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "../../etc/passwd": "0"}))
    with pytest.raises(DataError, match="passwd: no such file"):
        Release.load(copy)


def listed(copy):
    """The manifest of the files as they are."""
    names = [path.name for path in copy.iterdir() if path.name != "manifest.json"]
    digests = {name: hashlib.sha256((copy / name).read_bytes()).hexdigest() for name in sorted(names)}
    (copy / "manifest.json").write_text(json.dumps(digests))


def test_a_file_that_the_manifest_leaves_out_is_not_trusted(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps({k: v for k, v in manifest.items() if k != "model.safetensors"}))
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"model\.safetensors: not in manifest\.json"):
        Release.load(copy)


def test_another_release_under_the_name_of_one_is_refused(folder, release):
    assert Release.load(folder, release.version).version == release.version
    with pytest.raises(DataError, match=rf"holds release {release.version} instead of 0123456789ab; put the right one"):
        Release.load(folder, "0123456789ab")


@pytest.mark.parametrize(
    "change",
    [
        *({name: wrong} for name in ("cluster_id", "feature_names", "mean", "donor_model") for wrong in (None, 7, {})),
        {"gamma": "high"}, {"gamma": 2.0}, {"groups": 0}, {"data": []}, {"operator_clusters": ["x"]}, {"encoder": []},
        {"mean": []}, {"deviation": [1.0]}, {"donor_model": []}, {"more": 1}, {"cluster_id": []},
    ],
)  # fmt: skip
def test_facts_of_wrong_types_are_named(folder, tmp_path, change):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    facts = json.loads((copy / "release.json").read_text())
    (copy / "release.json").write_text(json.dumps(facts | change))
    listed(copy)
    with pytest.raises(DataError, match=r"release\.json: not the facts of a release \(.*make the release again"):
        Release.load(copy)


@pytest.mark.parametrize("text", ["[]", "7", "null", '"a"', "{", "{}"])
@pytest.mark.parametrize("name", ["release.json", "model.json", "known_tasks.json", "manifest.json"])
def test_files_that_are_something_else_are_named(folder, tmp_path, name, text):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / name).write_text(text)
    if name != "manifest.json":
        listed(copy)
    with pytest.raises(DataError, match=r"copy/.*(again|valid JSON|a release)"):
        Release.load(copy)


def test_a_new_task_without_samples_or_graph_is_predicted(release):
    tasks = pd.DataFrame(unseen(3)["tasks"]).assign(samples=np.nan, graph_id=None)
    belief = release.predict({"tasks": tasks})
    assert np.isfinite(belief.T).all()

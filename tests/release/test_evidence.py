"""Evidence: runs that a release has not learned from move what it believes of them and of their kin, and no other."""

import json
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from observed_runs import NEW, ran
from platform_log import CLUSTERS, small_log

from mfcp.predictors.residuals import ObservedCells
from mfcp.release.model import MANIFEST, Release, _sha256
from mfcp.release.observing import evidence_of
from mfcp.rules.base import Belief

TABLES = small_log()
pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


def same(found, expected):
    for field in fields(Belief):
        left, right = getattr(found, field.name), getattr(expected, field.name)
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, field.name


def test_nothing_observed_is_what_was_believed_to_the_bit(related):
    before = related.predict(NEW)
    nothing = evidence_of(related, NEW, ran())
    same(related.predict(NEW, nothing), before)
    failed = evidence_of(related, NEW, ran(("task500", "a", 1e9)).assign(status="failed"))
    same(related.predict(NEW, failed), before)
    no_time = evidence_of(related, NEW, ran(("task500", "a", np.nan)))
    same(related.predict(NEW, no_time), before)


def test_without_a_process_a_run_tells_of_its_own_task_alone(release):
    """Heads have no errors out of fold: what a task's clusters share is in the calibration."""
    before = release.predict(NEW)
    slow = float(before.T[0, 0, 0]) * 1.5
    after = release.predict(NEW, evidence_of(release, NEW, ran(("task500", "a", slow))))
    assert before.T[0, 0, 0] < after.T[0, 0, 0] < slow
    assert (after.T[0, 1:, 0] > before.T[0, 1:, 0]).all()
    assert (after.log_sd[0, :, 0] < before.log_sd[0, :, 0]).all()
    assert np.array_equal(after.T[0, :, 1:], before.T[0, :, 1:])
    assert np.array_equal(after.A, before.A)


def test_relatives_are_moved_as_the_process_says(related):
    family = NEW["tasks"]["model"].to_numpy()
    kinds, count = np.unique(family, return_counts=True)
    at = np.flatnonzero(family == kinds[count.argmax()])[:2]
    one, two = NEW["tasks"]["task_id"].to_numpy()[at]
    believed = related.believe(NEW, evidence_of(related, NEW, ran((one, "a", 900.0), (two, "c", 50.0))))
    before = related.before(NEW)
    process, y = related.trained.process(), np.log([900.0, 50.0])
    residual, noise = y - before.log_time[[0, 2], at], np.full(2, related.run_noise**2)
    cells = ObservedCells(before.points.take(at), np.array([0, 2]), residual, noise)
    told = process.condition(before.points, cells)
    assert np.log(believed.belief.T[0].T) == pytest.approx(before.log_time.T + told.shift)
    touched = (told.shift != 0).any(axis=1)
    assert np.array_equal(touched, family == family[at[0]])
    assert 2 < touched.sum() < 20


def test_spread_and_covariance_tell_the_same(related):
    believed = related.believe(NEW, evidence_of(related, NEW, ran(("task500", "a", 100.0))))
    spread = np.diagonal(believed.covariance[0], axis1=1, axis2=2)
    assert spread == pytest.approx(believed.belief.log_sd[0].T ** 2)
    assert np.linalg.eigvalsh(believed.covariance[0]).min() > -1e-12
    unseen = related.believe(NEW)
    assert (believed.belief.own_sd <= unseen.belief.own_sd + 1e-12).all()


def test_a_learned_task_that_ran_again_tells_of_itself_alone(related):
    """Its family's errors were learned with it, so its own say nothing of the others."""
    known = TABLES["tasks"].iloc[[0]]
    both = {**NEW, "tasks": pd.concat([known, NEW["tasks"]], ignore_index=True)}
    before = related.predict(both)
    seconds = float(before.T[0, 1, 0]) * 1.2
    after = related.predict(both, evidence_of(related, NEW, ran((known["task_id"].iloc[0], "b", seconds))))
    assert after.T[0, 1, 0] > before.T[0, 1, 0]
    assert np.array_equal(after.T[0, :, 1:], before.T[0, :, 1:])


def test_a_task_of_the_same_description_is_the_same_task(related):
    """It runs again under another name: the run is its own."""
    again = NEW["tasks"].iloc[[0]].assign(task_id="again")
    evidence = evidence_of(related, NEW, ran(("task500", "a", 100.0)))
    one, two = (related.believe({**NEW, "tasks": t}, evidence) for t in (NEW["tasks"].iloc[[0]], again))
    assert np.array_equal(one.belief.T, two.belief.T)
    assert two.movers(0, "a")[0].task_id == "task500"


def test_movers_are_named_with_what_they_did(related):
    runs = ran(("task500", "a", 1000.0), ("task503", "c", 50.0), ("task507", "b", 70.0))
    believed = related.believe(NEW, evidence_of(related, NEW, runs))
    movers = believed.movers(0, "a")
    assert (movers[0].task_id, movers[0].cluster_id) == ("task500", "a")
    assert movers[0].factor > 1.5 or movers[0].factor < 1 / 1.5
    total = believed.told.parts[0][0].sum()
    assert np.log(believed.belief.T[0, 0, 0]) == pytest.approx(related.before(NEW).log_time[0, 0] + total)
    assert not related.believe(NEW).movers(0, "a")


def test_cells_that_were_measured_are_known(related):
    believed = related.believe(NEW, evidence_of(related, NEW, ran(("task500", "a", 100.0), ("task502", "c", 50.0))))
    assert np.argwhere(believed.measured()).tolist() == [[0, 0], [2, 2]]
    assert not related.believe(NEW).measured().any()


def test_a_release_made_before_there_was_evidence_is_read_as_before(release, folder, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    for path in folder.iterdir():
        (old / path.name).write_bytes(path.read_bytes())
    facts = json.loads((old / "release.json").read_text())
    for name in ("pool_size", "run_noise"):
        facts.pop(name)
    (old / "release.json").write_text(json.dumps(facts))
    names = sorted(path.name for path in old.iterdir() if path.name != MANIFEST)
    (old / MANIFEST).write_text(json.dumps({name: _sha256(old / name) for name in names}))
    read = Release.load(old)
    same(read.predict(NEW), release.predict(NEW))
    assert read.pool_size.tolist() == [1.0] * len(CLUSTERS)

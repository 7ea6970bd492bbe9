"""Fitting a release: the newest tasks are held back, and the same training is the same release."""

import shutil

import pytest
from platform_log import CLUSTERS, small_log, small_release, small_settings

from mfcp.errors import DataError, SettingsError
from mfcp.files import UnwritableError
from mfcp.release.decision import decide
from mfcp.release.fitting import fit_release, replacing_release
from mfcp.release.model import MANIFEST, Release, verify

TABLES = small_log()
pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


def unseen(count=20):
    own = small_log(count, seed=9, start=500)
    return {name: own[name] for name in ("tasks", "nodes", "edges")}


def test_the_newest_tasks_are_held_back_and_no_family_is_on_both_sides_of_validation(release):
    first = TABLES["runs"].groupby("task_id")["started_at"].min().sort_values(kind="stable")
    newest = set(first.index[-round(0.15 * len(first)) :])
    assert release.learned_from == set(first.index) - newest
    assert release.cluster_id == CLUSTERS
    assert release.data["tasks"] == len(release.learned_from)


def test_the_same_training_is_the_same_release(folder, tmp_path):
    again = small_release(tmp_path / "again", TABLES)
    assert again.version == Release.load(folder).version
    other = small_release(tmp_path / "other", TABLES, seed=1)
    assert other.version != again.version


def test_an_interrupted_training_leaves_the_earlier_release_in_its_place(folder, tmp_path):
    place = tmp_path / "release"
    shutil.copytree(folder, place)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_release(TABLES, small_settings(seed=1), place, data={}, advance=interrupted)
    assert verify(place) == verify(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_no_task_and_an_unknown_method_are_said(release, tmp_path):
    tables = unseen(3)
    with pytest.raises(DataError, match="no rows"):
        decide(release, {**tables, "tasks": tables["tasks"].head(0)})
    with pytest.raises(SettingsError, match=r"gamma: expected a mean reliability in \[0, 1\], got 7"):
        decide(release, tables, gamma=7)
    with pytest.raises(SettingsError, match=r"release.method: no row 'magic'"):
        fit_release(TABLES, small_settings(method="magic"), tmp_path / "x", data={})


def test_a_few_successes_do_not_make_gamma_certainty(tmp_path):
    """With two runs a pair most shares are 1; what nobody can predict must not be asked of every round."""
    log = small_log(30, runs=2)
    good = log["runs"]["status"].to_numpy(object)
    good[:] = "succeeded"
    good[1::40] = "failed"
    log["runs"]["status"] = good
    release = small_release(tmp_path / "release", log)
    assert 0.9 < release.gamma < 0.99
    tables = unseen(6)
    assert decide(release, tables).status != "short"


def failing(folder, error):
    with replacing_release(folder):
        assert folder.is_dir()
        raise error("no")


def test_a_full_disk_leaves_the_earlier_release_in_its_place(tmp_path):
    """A log that no longer makes a release moves it aside; a disk is not the log's fault."""
    earlier = tmp_path / "rel"
    earlier.mkdir()
    (earlier / MANIFEST).write_text("{}")
    for error, stays in ((UnwritableError, True), (KeyboardInterrupt, True), (DataError, False)):
        with pytest.raises(error, match="no"):
            failing(earlier, error)
        assert earlier.is_dir() is stays
    assert (tmp_path / "rel.previous" / MANIFEST).is_file()

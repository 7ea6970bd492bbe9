"""`mfcp release` on folders of logs; the walk from an empty folder is in tests/walk."""

import json

import pytest
import yaml
from platform_log import small_log, small_settings

from mfcp.cli import main
from mfcp.data.log.tables import write_tables
from mfcp.release.model import Release


def call(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(part) for part in arguments])
    return end.value.code


@pytest.fixture
def place(tmp_path):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_settings().content))
    write_tables(small_log(30), tmp_path / "log")
    return tmp_path


@pytest.mark.parametrize("method", ["tam", "tsm"])
def test_every_method_states_intervals(place, capsys, method):
    options = ("--data", place / "log", "--params", place / "params.yaml", "--out", place / "release")
    assert call("release", *options, "--method", method) == 0
    release = Release.load(place / "release")
    assert (release.trained.calibration.log_sd > 0.01).all()
    assert "30" not in str(release.data["held_back"])
    assert f"release {release.version}" in capsys.readouterr().out
    assert call("release", *options, "--method", "magic") == 2
    assert "release.method: no row 'magic' under methods" in capsys.readouterr().err


def test_a_log_of_throughput_needs_the_work_of_every_new_task(place, capsys):
    log = small_log(12)
    runs = log["runs"]
    runs["samples_per_s"], runs["duration_s"] = 1e4 / runs["duration_s"], None
    log["tasks"]["samples"] = None
    write_tables(log, place / "log")
    options = ("--data", place / "log", "--params", place / "params.yaml", "--out", place / "release")
    assert call("release", *options) == 0
    new = small_log(2, seed=9, start=500)
    write_tables({name: new[name] for name in ("tasks", "nodes", "edges")}, place / "new")
    match = ("match", "--model", place / "release", "--tasks", place / "new")
    capsys.readouterr()
    assert call(*match) == 0
    first = json.loads(capsys.readouterr().out)
    new["tasks"]["samples"] *= 7
    write_tables({"tasks": new["tasks"]}, place / "new")
    assert call(*match) == 0
    for one, other in zip(first["tasks"], json.loads(capsys.readouterr().out)["tasks"], strict=True):
        if one["cluster_id"] == other["cluster_id"]:
            assert other["seconds"] == pytest.approx(7 * one["seconds"])
    new["tasks"]["samples"] = None
    write_tables({"tasks": new["tasks"]}, place / "new")
    assert call(*match) == 2
    assert "tells throughput only, so seconds need the task's work; fill in column 'samples'" in capsys.readouterr().err


def test_wrong_settings_are_told_before_the_log_is_read(tmp_path, capsys):
    content = small_settings().content
    for section, value, words in (
        ("matching", {"tasks": "five"}, "matching.tasks: "),
        ("limits", {"rows": 1000}, "limits: what may be read is bounded by params.yaml of the working folder"),
    ):
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(content | {section: value}))
        options = ("--data", tmp_path / "none", "--params", tmp_path / "params.yaml", "--out", tmp_path / "release")
        assert call("release", *options) == 2
        assert f"{tmp_path / 'params.yaml'}: {words}" in capsys.readouterr().err

"""`mfcp doctor` finds what is there, says what is missing and what to do, and changes nothing."""

import importlib.util
import json
import subprocess
import sys
import time

import pytest
from commands.called import run
from platform_log import small_log, small_release

from mfcp.commands.operating import doctor
from mfcp.platform.releases.models import Models
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store


def looked(capsys, *arguments):
    code, out, err = run(capsys, "doctor", *arguments, "--json")
    return code, {(check["use"], check["name"]): check for check in json.loads(out)}, err


def test_a_machine_that_runs_these_tests_lacks_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(doctor.Path(__file__).parents[3])
    code, checks, err = looked(capsys, "library", "pipeline")
    assert (code, err) == (0, "")
    assert {check["state"] for check in checks.values()} <= {"ok", "note"}
    assert checks["library", "Python"]["found"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert checks["pipeline", "checkout"]["state"] == "ok"


def test_what_is_missing_is_named_with_its_remedy(capsys, monkeypatch, tmp_path):
    found = importlib.util.find_spec
    hidden = ("mlflow", "river", "transformers")
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name in hidden else found(name))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    code, checks, err = looked(capsys, "pipeline")
    assert code == 1
    assert "3 missing for pipeline" in err or "4 missing for pipeline" in err
    assert checks["pipeline", "packages"]["found"] == "without mlflow, transformers"
    assert checks["pipeline", "packages"]["remedy"] == "pip install 'mfcp[graphs,pipeline]'"
    assert checks["pipeline", "git"] == {
        "use": "pipeline", "name": "git", "state": "missing", "found": "not found", "remedy": "install git"
    }  # fmt: skip
    assert checks["pipeline", "checkout"]["remedy"] == "cd to a clone of mfcp"


def test_a_platform_tells_how_it_is_and_a_damaged_release_is_missing(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("MFCP_DATABASE", raising=False)
    monkeypatch.setenv("PREFECT_PORT", "1")
    home = tmp_path / "home"
    home.mkdir()
    models = Models(home, Store(f"sqlite:///{home}/platform.db"))
    code, checks, _ = looked(capsys, "platform", "--home", home)
    assert checks["platform", "release"]["found"] == "none yet"
    assert (code, checks["platform", "Prefect"]["state"]) == (0, "note")
    small_release(tmp_path / "one", small_log())
    version = models.add(tmp_path / "one", {})
    models.store.set_online({"c": False})
    code, checks, _ = looked(capsys, "platform", "--home", home)
    assert (code, checks["platform", "release"]["found"]) == (0, f"{version} decides")
    assert checks["platform", "clusters"]["found"] == "offline: c"
    assert checks["platform", "outbox"]["found"].startswith("1 metrics wait for MLflow")
    (home / "models" / version / "release.json").write_text("{}")
    code, checks, err = looked(capsys, "platform", "--home", home)
    assert (code, checks["platform", "release"]["state"]) == (1, "missing")
    assert "1 missing for platform" in err


def test_real_clusters_that_nobody_asks_are_told_with_what_is_to_be_started(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("MFCP_DATABASE", raising=False)
    home = tmp_path / "home"
    (home / "repo").mkdir(parents=True)
    attempts = Attempts(Store(f"sqlite:///{home}/platform.db"))

    def told(every="", name="local"):
        clusters = "".join(
            f"    {name}: {{executor: {{kind: {name}, folder: tasks, slots: 1}}}}\n" for name in ("local", "other")
        ).replace("kind: other", f"kind: {name}")
        (home / "repo" / "params.yaml").write_text(f"platform:\n  clusters:\n{clusters}{every}")
        code, checks, _ = looked(capsys, "platform", "--home", home)
        return code, checks.get(("platform", "real clusters")), checks

    code, check, _ = told()
    assert (code, check["state"], check["found"]) == (0, "note", "local, other: never asked")
    assert "mfcp-runner.service" in check["remedy"]
    at = time.time()
    for name in ("local", "other"):
        attempts.report(name, up=True, why="", backlog_s=0.0)
    _, check, _ = told()
    assert (check["state"], check["found"]) == ("ok", "local, other: asked within 10 min")
    with monkeypatch.context() as later:
        later.setattr(doctor.time, "time", lambda: at + 3600)
        _, check, _ = told()
        assert (check["state"], check["found"]) == ("note", "local, other: not asked for 60 min")
    _, check, _ = told("  every_s: {run: 0}\n")
    assert (check["state"], check["found"]) == ("note", "platform.every_s.run is 0: nothing runs")
    code, check, checks = told(name="slrm")
    assert (code, check, checks["platform", "settings"]["state"]) == (1, None, "missing")
    assert "params.yaml" in checks["platform", "settings"]["found"]


def test_a_database_that_cannot_be_had_is_missing_within_seconds(capsys, monkeypatch, tmp_path):
    (tmp_path / "repo").mkdir()  # a platform whose database is gone
    monkeypatch.delenv("MFCP_DATABASE", raising=False)
    code, checks, _ = looked(capsys, "platform", "--home", tmp_path)
    assert (code, checks["platform", "database"]["state"]) == (1, "missing")


@pytest.mark.parametrize(("arguments", "told"), [(["boats"], "'boats': no use; choose of library, pipeline, platform")])
def test_an_unknown_use_is_an_error(capsys, arguments, told):
    code, _, err = run(capsys, "doctor", *arguments)
    assert (code, told in err) == (2, True)


def test_without_a_use_it_looks_at_what_is_begun_and_fits_80_columns(monkeypatch, tmp_path):
    program = "from mfcp.cli import main; main(['doctor', '--home', '/nonexistent'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env={**doctor.os.environ, "COLUMNS": "80"}, check=False)  # fmt: skip
    assert done.returncode == 0
    assert "library: Python" in done.stdout
    assert "pipeline" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80

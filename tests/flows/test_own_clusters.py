"""`make platform CLUSTERS=slurm`: what it says of its clusters, and where it cannot start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

from flows import loop, own_clusters, workspace, zoo_tasks
from flows.slurm import OwnCluster, OwnSlurm, missing
from flows.zoo_tasks import draw
from mfcp.errors import MfcpError, SettingsError
from mfcp.platform.running.job_settings import command_of, rows_of
from mfcp.platform.settings import PlatformSettings
from mfcp.platform.state.store import Note, Store


def test_clusters_that_are_not_known_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTERS", "nomad")
    with (
        pytest.raises(SettingsError, match="CLUSTERS=nomad: expected simulated, or slurm"),
        loop._clusters(tmp_path, tmp_path, print),
    ):
        pass


def test_without_slurm_the_word_is_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("flows.slurm._PATH", "/nowhere")
    assert "apt-get install" in missing()
    with pytest.raises(MfcpError, match=r"Slurm is not installed here .* apt-get install"):
        OwnSlurm(tmp_path, own_clusters.OWN)


@pytest.mark.skipif(bool(missing()), reason="no Slurm")
def test_a_database_that_cannot_be_made_says_why(tmp_path, monkeypatch):
    own = OwnSlurm(tmp_path / "fleet", own_clusters.OWN)
    (tmp_path / "mariadb-install-db").write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
    (tmp_path / "mariadb-install-db").chmod(0o755)
    monkeypatch.setattr("flows.slurm._PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(MfcpError, match="mariadb-install-db ended with 3; it said: no space left"):
        own._mariadbd()


class _Crashing(OwnSlurm):
    """Its database crashes as the controller starts, once."""

    def _spawn(self, name):
        super()._spawn(name)
        if name == "slurmctld-one" and not hasattr(self, "crashed"):
            self.crashed = self.processes["mariadbd"]
            self.crashed.send_signal(signal.SIGSEGV)


@pytest.mark.slurm
@pytest.mark.skipif(bool(missing()), reason="no Slurm")
def test_a_database_that_crashes_as_others_start_is_started_again():
    root = Path(tempfile.mkdtemp(prefix="mfcp-slurm-"))  # short: sockets' paths are
    try:
        with _Crashing(root, [OwnCluster("one")]) as started:
            assert started.crashed.wait() == -signal.SIGSEGV
            assert started.node_states("one") == {"idle"}
            running = dict(started.processes)
            started.start("mariadbd")
            assert started.processes == running
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def few_models(monkeypatch):
    """Of two families only: to count the models of all of them takes a while."""
    monkeypatch.setattr(zoo_tasks, "FAMILIES", ("mobilenet_v2", "distilbert"))
    zoo_tasks.small_models.cache_clear()
    yield
    zoo_tasks.small_models.cache_clear()


@pytest.mark.slurm
def test_its_sections_are_settings_and_its_tasks_have_commands(slurm, few_models):
    section = PlatformSettings.model_validate(own_clusters.sections(slurm)["platform"])
    assert set(section.clusters) == {"alpha", "beta"}
    tables = draw(range(3))
    assert list(draw(range(1, 2))["tasks"]["task_id"]) == list(tables["tasks"]["task_id"].iloc[1:2])
    from mfcp.executors.base import JobLimits

    for name, row in rows_of(tables).items():
        command = command_of(section.clusters["beta"].command, row, "beta", 1, JobLimits(**section.run.limits))
        assert "ONEDNN_MAX_CPU_ISA=SSE41" in command
        assert f"--model {row['graph_id']} " in command
        assert name.startswith("zoo-")


def test_settings_of_a_platform_are_changed_by_a_commit(tmp_path):
    repo = tmp_path / "repo"
    repo.mkdir()
    for command in (["init", "-q"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *command], cwd=repo, check=True)
    (repo / "params.yaml").write_text("# kept\npool:\n  pools: asis\nplatform: # also\n  every_s: {match: 5}\n")
    subprocess.run(["git", "add", "."], cwd=repo, check=True)
    subprocess.run(["git", "commit", "-qm", "x"], cwd=repo, check=True)
    for _ in range(2):
        workspace.set_params(tmp_path, {"platform": {"every_s": {"run": 60}}}, "Its clusters")
    text = (repo / "params.yaml").read_text()
    assert text.startswith("# kept\n")
    assert yaml.safe_load(text) == {"pool": {"pools": "asis"}, "platform": {"every_s": {"run": 60}}}
    log = subprocess.run(["git", "log", "--format=%s"], cwd=repo, check=True, capture_output=True, text=True).stdout
    assert log.split("\n")[:2] == ["Its clusters", "x"]


@pytest.mark.slurm
@pytest.mark.slow
def test_first_runs_are_a_log(slurm, tmp_path):
    """Every task on every cluster, started by the program that a person would start."""
    home = tmp_path / "home"
    (home / "repo").mkdir(parents=True)
    clusters = {
        name: {"executor": {"kind": "slurm", "folder": str(tmp_path / name), "conf": str(slurm.conf(name))}}
        for name in ("alpha", "beta")
    }
    run = {"command": "echo {model}", "seconds": 30.0, "memory_bytes": 100 << 20, "deliver_s": 0.0}
    (home / "repo" / "params.yaml").write_text(yaml.safe_dump({"platform": {"clusters": clusters, "run": run}}))
    (tmp_path / "tasks.csv").write_text("task_id,model\na,one\nb,two\n")
    program = [sys.executable, "-m", "flows.first_runs", "--home", home, "--tasks", tmp_path / "tasks.csv"]
    for _ in range(2):  # again changes nothing
        done = subprocess.run(
            program, cwd=Path(__file__).parents[2], env=dict(os.environ), capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    program += ["--each", "3"]
    root = Path(__file__).parents[2]
    wrong = subprocess.run(program, cwd=root, capture_output=True, text=True, timeout=100, check=False)
    assert wrong.returncode
    assert wrong.stderr.endswith("--each 3: expected 0 for all, or 1 to 2 of alpha, beta\n")
    from mfcp.data.log.schema import RUNS
    from mfcp.data.log.tables import find_table, read_table

    runs = [
        (row["task_id"], row["cluster_id"], row["status"])
        for folder in (home / "inbox").iterdir()
        for row in read_table(find_table(folder, "runs"), RUNS).to_dict("records")
    ]
    assert sorted(runs) == [(task, cluster, "succeeded") for task in "ab" for cluster in ("alpha", "beta")]


class Told:
    """What a server and a platform's database would say: deliveries, releases, and how trainings ended."""

    def __init__(self, begun) -> None:
        self.begun = begun
        self.runs, self.releases, self.ends = [], [], []

    def deliveries(self):
        return pd.DataFrame({"rows": self.runs})

    def models(self):
        return pd.DataFrame({"version": self.releases})

    def read_deployment_by_name(self, name):
        assert name == "mfcp-retrain/retrain"
        return SimpleNamespace(id=name)

    def create_flow_run_from_deployment(self, _):
        self.ends.append(self.begun)
        return SimpleNamespace(id=len(self.ends) - 1)

    def read_flow_run(self, number):
        return SimpleNamespace(state=self.ends[number])


def test_a_log_too_thin_for_a_release_is_tried_again_with_more_runs():
    from prefect.states import Completed, Failed, Pending

    told, said = Told(Pending()), []
    first = loop.FirstRelease(told, told)
    told.runs = [{"tasks": 1, "runs": 5}]
    assert not first.is_there(said.append)
    assert not told.ends  # three tasks on two clusters are six runs
    told.runs.append({"tasks": 1, "runs": 1})
    for _ in range(2):
        assert not first.is_there(said.append)
    assert len(told.ends) == 1
    told.runs.append({"runs": 1})
    assert not first.is_there(said.append)
    assert len(told.ends) == 1  # the first is not over
    told.ends[0] = Failed(
        message="StageError: stage 'release' failed:\nrelease …\nerror: data/valid: too little\nERROR: x"
    )
    for _ in range(2):
        assert not first.is_there(said.append)
    assert (len(told.ends), said) == (2, ["no release yet: data/valid: too little"])
    told.ends[1] = Completed()
    for _ in range(2):
        assert not first.is_there(said.append)
    assert len(told.ends) == 2  # nothing has come since
    told.releases = ["a"]
    assert first.is_there(said.append)
    assert len(said) == 1


def test_a_release_that_is_not_promoted_is_told_with_why(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'platform.db'}")
    news = loop.News(store)
    told = {"challenger": "b", "why": "0 test tasks"}
    store.post([Note("verdict", kind="event", content={**told, "promote": promote}) for promote in (False, True)])
    assert news.lines() == ["release b is not promoted: 0 test tasks"]
    assert news.lines() == []

"""The flow retrain: one at a time, on the newest log, retried only where that helps, in no person's checkout."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from flow_process import FlowError, FlowProcess, ask
from platform_checkout import git, make_checkout
from platform_log import small_log, small_release
from running import Prefect

from flows import checkout as dvc_checkout
from flows import workspace
from flows.retrain import train
from mfcp.data.log.tables import write_tables
from mfcp.errors import MfcpError
from mfcp.platform.releases.models import Models
from mfcp.platform.state.home import LOG
from mfcp.platform.state.store import Store

REPOSITORY = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release for the toy's stage to copy."""
    folder = tmp_path_factory.mktemp("release") / "release"
    small_release(folder, small_log())
    return folder


def platform(folder: Path, commands: str) -> Path:
    """A platform with a log, whose stage `release` runs these commands."""
    workspace.make_home(make_checkout(folder / "checkout", commands), folder / "home")
    repo = folder / "home" / "repo"
    write_tables(small_log(6, runs=1), repo / LOG)
    workspace.commit_log(repo, "A log")
    return folder / "home"


def stage(work: Path) -> Any:
    return lambda name: dvc_checkout.reproduce(work, name, log=lambda line: None)


def test_a_training_enters_a_release_and_again_changes_nothing(tmp_path: Path, release: Path) -> None:
    home = platform(tmp_path, f"cp -r {release} data/release")
    with workspace.working(home, 0) as work:
        version = train(home, work, stage(work))
        assert (work / "data" / "raw" / "runs.parquet").exists()  # of the platform's log, not of `source`
        commit = git(work, "rev-parse", "HEAD").strip()
    store = Store(f"sqlite:///{home}/platform.db")
    models = Models(home, store)
    assert (home / "models" / version / "manifest.json").read_bytes() == (release / "manifest.json").read_bytes()
    assert models.current() == version
    assert store.models()["metrics"].iloc[0]["retrain.ran"] == 2
    notes = store.undelivered().set_index("name")
    assert notes.loc["retrain.seconds", "value"] > 0
    said = notes.loc["retrain.ran", "content"]
    assert (said["version"], said["commit"], said["known"]) == (version, commit, False)
    assert said["log"] in (home / "repo" / "data" / "log.dvc").read_text()
    assert f"release-{version}" in git(home / "work", "for-each-ref", "refs/exps")

    with workspace.working(home, 0) as work:
        assert train(home, work, stage(work)) == version
    assert len(store.models()) == 1
    assert store.undelivered()["content"].iloc[-1]["known"]
    assert git(tmp_path / "checkout", "status", "--porcelain") == "?? unfinished.txt\n"
    assert git(tmp_path / "checkout", "for-each-ref").count("refs/") == 1


def test_two_at_once_are_one_after_the_other_or_a_clear_error(tmp_path: Path) -> None:
    home = platform(tmp_path, "exit 1")
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom flows import workspace\n"
        f"with workspace.working(Path({str(home)!r}), 0): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    message = f"another pipeline runs here .process {holder.pid}"
    with pytest.raises(MfcpError, match=message), workspace.working(home, 0.3):
        pass
    holder.kill()
    holder.communicate()
    with workspace.working(home, 0):  # free at once
        pass


@pytest.mark.parametrize(
    ("commands", "runs", "words"),
    [
        ("echo the log lacks clusters >&2; exit 2", 1, "the log lacks clusters"),
        ("test -e tried && cp -r {release} data/release || {{ touch tried; kill -9 $$; }}", 2, ""),
    ],
    ids=["bad data is not retried", "a killed stage is"],
)
def test_the_flow_retries_what_helps(
    prefect: Prefect,
    flow_process: FlowProcess,
    tmp_path: Path,
    release: Path,
    commands: str,
    runs: int,
    words: str,
) -> None:
    home = platform(tmp_path, commands.format(release=release))
    name = f"retrain-{runs}"
    with pytest.raises(FlowError, match=words) if words else nullcontext():
        flow_process.run(home, "retrain", name, promote=False, retries=1, retry_delay_s=0.1)
    (run,) = ask(prefect, "flow_runs", flow_runs={"name": {"any_": [name]}})
    assert run["state_type"] == ("FAILED" if words else "COMPLETED")
    assert words in (run["state"]["message"] or "")
    tasks = {task["name"]: task for task in ask(prefect, "task_runs", task_runs={"flow_run_id": {"any_": [run["id"]]}})}
    assert tasks["release"]["run_count"] == runs
    assert set(tasks) == {"raw", "release"}

"""The platform's clones, the log as versions in DVC and git whoever dies, and the flow against a real server."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import yaml
from flow_process import FlowProcess
from platform_checkout import git, make_checkout
from platform_log import small_log
from running import fork

from flows import workspace
from mfcp.data.log.tables import write_tables
from mfcp.errors import MfcpError
from mfcp.platform.intake import inbox
from mfcp.platform.state.home import LOG, open_store
from mfcp.platform.state.store import Note, Store

pytestmark = pytest.mark.xdist_group("prefect")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout")


@pytest.fixture
def home(tmp_path: Path, checkout: Path) -> Path:
    workspace.make_home(checkout, tmp_path / "home")
    return tmp_path / "home"


def take(home: Path) -> list[inbox.Delivery]:
    """What the flow does, without Prefect."""
    repo = home / "repo"
    store = Store(f"sqlite:///{home}/platform.db")
    return inbox.ingest(home, repo / LOG, store, lambda message: workspace.commit_log(repo, message))


def put(home: Path, *names: str) -> None:
    for name in names:
        write_tables(small_log(4, start=10 * len(name), runs=1), home / "inbox" / name)


def test_a_home_is_a_clone_whose_log_is_its_input(home: Path, checkout: Path) -> None:
    repo = home / "repo"
    assert git(repo, "branch", "--show-current").strip() == "platform"
    assert git(repo, "rev-parse", "HEAD~1") == git(checkout, "rev-parse", "HEAD")
    text = (repo / "params.yaml").read_text()
    before, after = yaml.safe_load((checkout / "params.yaml").read_text()), yaml.safe_load(text)
    own = {"ingest": {"source": {"kind": "folder", "path": "data/log"}, "reads": "data/log"}, "pool": {"pools": "asis"}}
    assert after == before | own
    assert "max_bad_share: 0.05 # of any table" in text
    assert not (repo / "unfinished.txt").exists()
    assert workspace.dvc(repo, "cache", "dir") == str(checkout / ".dvc" / "cache")
    assert git(checkout, "status", "--porcelain") == "?? unfinished.txt\n"


def test_a_home_is_made_with_its_database_which_is_never_made_anew(home: Path) -> None:
    open_store(home).post([Note("kept", 1.0)])
    (home / "platform.db").rename(home / "away.db")
    back = threading.Timer(0.5, lambda: (home / "away.db").rename(home / "platform.db"))
    back.start()
    assert list(open_store(home).undelivered()["name"]) == ["kept"]
    back.join()


def test_a_home_takes_what_is_new_in_the_checkout_and_keeps_its_own(home: Path, checkout: Path) -> None:
    put(home, "first")
    take(home)
    params = home / "repo" / "params.yaml"
    before = params.read_text()
    (checkout / "later.txt").write_text("new\n")
    git(checkout, "add", "later.txt")
    git(checkout, "commit", "--quiet", "--message", "later")
    workspace.make_home(checkout, home)
    assert (home / "repo" / "later.txt").read_text() == "new\n"
    assert params.read_text() == before
    commit = git(home / "repo", "rev-parse", "HEAD")
    workspace.make_home(checkout, home)
    assert git(home / "repo", "rev-parse", "HEAD") == commit
    with workspace.working(home, 0) as work:
        assert (work / "later.txt").exists()
        assert (work / "data" / "log").is_dir()


def test_a_home_that_changed_the_same_lines_says_so_and_stays_as_it_was(home: Path, checkout: Path) -> None:
    commit = git(home / "repo", "rev-parse", "HEAD")
    params = checkout / "params.yaml"
    content = yaml.safe_load(params.read_text())
    params.write_text(yaml.safe_dump(content | {"pool": {"pools": "balanced", "failures": "off"}}))
    git(checkout, "commit", "--quiet", "--all", "--message", "another pool")
    with pytest.raises(MfcpError, match=r"repo: params.yaml changed both here and in .*; merge them by hand with"):
        workspace.make_home(checkout, home)
    assert git(home / "repo", "rev-parse", "HEAD") == commit
    assert not git(home / "repo", "status", "--porcelain")


def test_params_that_cannot_be_changed_are_left_alone(checkout: Path, tmp_path: Path) -> None:
    (checkout / "params.yaml").write_text("{validate: {max_bad_share: 0.05}}\n")
    git(checkout, "commit", "--quiet", "--all", "--message", "in one line")
    with pytest.raises(MfcpError, match="expected a section 'ingest' that begins a line"):
        workspace.make_home(checkout, tmp_path / "home")
    assert not list((tmp_path / "home").glob("*repo*"))
    assert not list((tmp_path / "home").glob(".repo*"))


def test_work_follows_the_log_and_a_person_s_checkout_does_not(home: Path, checkout: Path) -> None:
    with pytest.raises(MfcpError, match="no log yet; put a delivery into"), workspace.working(home, 0):
        pass
    put(home, "first")
    take(home)
    with workspace.working(home, 0) as work:
        assert len(list((work / "data" / "log").iterdir())) == 5
        (work / "dvc.yaml").write_text("damaged")
        (work / "data" / "log" / "runs.parquet").unlink()
    (home / "work" / ".git" / "index.lock").touch()  # of a git that was killed
    (workspace.LOCK_WAIT_S, patience) = (0.2, workspace.LOCK_WAIT_S)
    try:
        with workspace.working(home, 0) as work:
            assert (work / "dvc.yaml").read_text() == (checkout / "dvc.yaml").read_text()
            assert (work / "data" / "log" / "runs.parquet").exists()
    finally:
        workspace.LOCK_WAIT_S = patience
    assert git(checkout, "status", "--porcelain") == "?? unfinished.txt\n"
    assert git(checkout, "branch", "--all").split() == ["*", "main"]


def state(home: Path) -> dict[str, object]:
    """What must not depend on who died."""
    repo = home / "repo"
    commits = git(repo, "log", "--format=%s").splitlines()
    store = Store(f"sqlite:///{home}/platform.db")
    return {
        "log": (repo / "data" / "log.dvc").read_text(),
        "files": sorted(p.name for p in (repo / "data" / "log").iterdir()),
        "commits": commits,
        "dirty": git(repo, "status", "--porcelain"),
        "stray": sorted(p.name for p in (repo / "data").iterdir()),
        "deliveries": sorted(zip(store.deliveries()["name"], store.deliveries()["status"], strict=True)),
        "inbox": sorted(p.name for p in (home / "inbox").iterdir()),
        "archive": sorted(p.parent.parent.name for p in (home / "archive").rglob("runs.parquet")),
    }


@pytest.mark.slow
@pytest.mark.long
def test_a_kill_between_dvc_git_and_database_changes_nothing_in_the_end(home: Path, tmp_path: Path) -> None:
    put(home, "a", "bb")
    for trial in range(5):
        shutil.copytree(home, tmp_path / f"copy{trial}", symlinks=True)
    begin = time.monotonic()
    take(home)
    took = time.monotonic() - begin
    expected = state(home)
    assert expected["commits"][:2] == ["Delivery bb", "Delivery a"]  # type: ignore[index]
    assert expected["dirty"] == ""
    rng, deaths = random.Random(0), 0
    for trial in range(5):
        copy = tmp_path / f"copy{trial}"
        pid = fork(partial(take, copy))
        time.sleep(rng.uniform(0.15, 0.85) * took)
        os.kill(pid, signal.SIGKILL)
        deaths += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        take(copy)
        assert state(copy) == expected
    assert deaths


@pytest.mark.slow
def test_the_flow_against_a_server(flow_process: FlowProcess, home: Path) -> None:
    put(home, "first")
    (home / "inbox" / "runs-torn.parquet").write_bytes(b"PAR1")
    first, second = (flow_process.run(home, "ingest", name) for name in ("first delivery", "no delivery"))
    assert (first.returned, second.returned) == ({"taken": 1, "refused": 1}, {})
    assert "runs-torn.parquet: refused" in first.said

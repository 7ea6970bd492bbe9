"""The platform's own clones of a checkout: `repo`, where its data are committed, and `work`, where it trains.

A person's checkout is read once, at its newest commit; nothing here writes to it but DVC's cache, which all share.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from flows import guard
from flows.checkout import only_one
from mfcp.data.log.tables import Tables, read_tables
from mfcp.environment import OFF
from mfcp.errors import MfcpError
from mfcp.platform.state.home import LOG, no_platform, open_store

BRANCH = "platform"
PARAMS: dict[str, dict[str, Any]] = {  # of every platform, over the checkout's: real pools and the delivered log
    "ingest": {"source": {"kind": "folder", "path": LOG}, "reads": LOG},
    "pool": {"pools": "asis"},
}
FOLDERS = ("inbox", "archive", "quarantine", "models", "logs")
LOCK_WAIT_S = 10.0
IDENTITY = (("user.name", "mfcp"), ("user.email", "mfcp@localhost"), ("commit.gpgsign", "false"))


def repo_of(home: Path) -> Path:
    """The platform's clone.

    Raises:
        MfcpError: there is none.
    """
    if not (home / "repo").is_dir():
        raise no_platform(home)
    return home / "repo"


def make_home(checkout: Path, home: Path) -> None:
    """A platform's folder with `repo`, a clone of the checkout's newest commit whose log is data/log.

    Where there is one already, what the checkout has that it has not is merged into it.

    Raises:
        MfcpError: no git checkout, one without DVC or params.yaml, or changes that conflict with the platform's own.
    """
    for name in FOLDERS:
        (home / name).mkdir(parents=True, exist_ok=True)
    with _alone(home):
        if (home / "repo").exists():
            _follow(checkout, home / "repo")
            return
        open_store(home, new=True)  # makes its database, which nothing else does
        with _cloned(checkout, home / "repo") as clone:
            git(clone, "switch", "--quiet", "--force-create", BRANCH)
            cache = Path(checkout, dvc(checkout, "cache", "dir").splitlines()[-1]).resolve()
            (clone / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {cache}\n")
            params = clone / "params.yaml"
            params.write_text(_with_sections(params.read_text(encoding="utf-8"), PARAMS), encoding="utf-8")
            git(clone, "commit", "--quiet", "--message", "The platform's log is its input", "--", "params.yaml")


def set_params(home: Path, sections: dict[str, dict[str, Any]], why: str) -> None:
    """Say something else in sections of the platform's params.yaml, as a commit of `repo`; nothing where it is so.

    Raises:
        MfcpError: no platform there, or a section that is not in block style.
    """
    repo = repo_of(home)
    with only_one(repo, LOCK_WAIT_S):
        params = repo / "params.yaml"
        before = params.read_text(encoding="utf-8")
        after = _with_sections(before, sections)
        if yaml.safe_load(after) != yaml.safe_load(before):
            params.write_text(after, encoding="utf-8")
            git(repo, "commit", "--quiet", "--message", why, "--", "params.yaml")


def read_log(home: Path, wait_s: float) -> Tables:
    """The platform's log as of one moment: while deliveries are merged, its tables do not fit each other.

    Raises:
        MfcpError: no platform, no log yet, or deliveries are merged for longer.
    """
    repo = repo_of(home)
    with only_one(repo, wait_s):
        return read_tables(repo / LOG)


def commit_log(repo: Path, message: str) -> None:
    """Make data/log of `repo` a version in DVC and git, where it is not one yet."""
    dvc(repo, "add", "--no-relink", LOG)  # relinking would take the files away for a moment
    git(repo, "add", f"{LOG}.dvc")
    if git(repo, "status", "--porcelain", "--untracked-files=no"):
        git(repo, "commit", "--quiet", "--message", message, "--", f"{LOG}.dvc")


@contextlib.contextmanager
def working(home: Path, wait_s: float) -> Iterator[Path]:
    """`work` at the newest commit of `repo`, with its log, for one user at a time.

    Args:
        home: of `make_home`.
        wait_s: seconds to wait for another user.

    Raises:
        MfcpError: no platform there, no log yet, or `work` is in use for longer.
    """
    repo, work = repo_of(home), home / "work"
    with _alone(home):
        if not work.exists():
            with _cloned(repo, work):
                pass
    with only_one(work, wait_s):
        update_work(home)
        yield work


def update_work(home: Path) -> None:
    """Bring `work` to the newest commit of `repo`, its log from DVC's cache."""
    repo, work = home / "repo", home / "work"
    if not (repo / f"{LOG}.dvc").exists():
        raise MfcpError(f"{repo}: no log yet; put a delivery into {home / 'inbox'} and run the flow mfcp-ingest")
    shutil.copyfile(repo / ".dvc" / "config.local", work / ".dvc" / "config.local")
    git(work, "fetch", "--quiet", "origin", BRANCH)
    git(work, "reset", "--quiet", "--hard", "FETCH_HEAD")
    dvc(work, "checkout", "--force", f"{LOG}.dvc")


def git(root: Path, *arguments: str) -> str:
    """What a git command prints.

    Raises:
        MfcpError: it failed, with its last line.
    """
    _free(root)
    inner = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set inside hooks: they mean another repository
    environment = {key: value for key, value in os.environ.items() if key not in inner}
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise MfcpError(f"{root}: git {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def dvc(root: Path, *arguments: str) -> str:
    """What a DVC command prints; it ends with this process.

    Raises:
        MfcpError: it failed, with its last lines.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    kept = {key: value for key, value in os.environ.items() if key not in ("DVC_ROOT", "DVC_STAGE")}
    process = guard.start(command, cwd=root, env={**OFF, **kept}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        with process.stdout as output:
            printed = output.read().strip()
        code = process.wait()
    finally:
        guard.stop(process)
    if code:
        raise MfcpError(f"{root}: dvc {' '.join(arguments)} failed: {printed[-500:]}")
    return printed


def _follow(checkout: Path, repo: Path) -> None:
    """Merge the checkout's newest commit into the platform's branch, or leave that as it was."""
    with only_one(repo, LOCK_WAIT_S):
        git(repo, "fetch", "--quiet", str(checkout.resolve()), "HEAD")
        try:
            git(repo, "merge", "--quiet", "--no-edit", "FETCH_HEAD")
        except MfcpError:
            changed = git(repo, "diff", "--name-only", "--diff-filter=U").split()
            if not changed:
                raise
            git(repo, "merge", "--abort")
            raise MfcpError(
                f"{repo}: {', '.join(changed)} changed both here and in {checkout}; merge them by hand with "
                f"`git pull --no-rebase {checkout.resolve()} HEAD` there, then start the platform again"
            ) from None


@contextlib.contextmanager
def _cloned(source: Path, target: Path) -> Iterator[Path]:
    """A clone that takes its place when the block ends without error."""
    for litter in target.parent.glob(f".{target.name}.*"):  # of one that was killed here
        shutil.rmtree(litter)
    clone = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        git(target.parent, "clone", "--quiet", str(source.resolve()), str(clone))
        for key, value in IDENTITY:
            git(clone, "config", key, value)
        yield clone
        clone.chmod(0o755)
        os.rename(clone, target)
    finally:
        shutil.rmtree(clone, ignore_errors=True)


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    with (home / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _free(root: Path) -> None:
    """Remove lock files of a git that was killed: a clone has one user at a time, whose own commands have ended."""
    for name in ("index.lock", "HEAD.lock", f"refs/heads/{BRANCH}.lock"):
        lock = root / ".git" / name
        deadline = time.monotonic() + LOCK_WAIT_S
        while lock.exists():
            if time.monotonic() > deadline:
                lock.unlink(missing_ok=True)
            time.sleep(0.1)


def _with_sections(text: str, sections: dict[str, dict[str, Any]]) -> str:
    """params.yaml with what these sections say, other ones to the letter."""
    given = yaml.safe_load(text) or {}
    for name, own in sections.items():
        given[name] = {**(given.get(name) or {}), **own}
        lines = yaml.safe_dump({name: given[name]}, sort_keys=False, default_flow_style=None) + "\n"
        text, there = re.subn(rf"(?ms)^{name}:.*?(?=^\S|\Z)", lines, text, count=1)
        text = text if there else f"{text.rstrip()}\n\n{lines}"
        try:
            same = yaml.safe_load(text) == given
        except yaml.YAMLError:
            same = False
        if not same:
            raise MfcpError(
                f"params.yaml: expected a section '{name}' that begins a line of its own; write it in block style"
            )
    return text

"""A platform of its own for each test, two releases for all of them, and a Postgres server where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from platform_log import misled, small_log, small_release
from running import until

from mfcp.platform.state.store import Store


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a release that learned the truth."""
    folder = tmp_path_factory.mktemp("release") / "good"
    small_release(folder, small_log())
    return folder


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a release that learned from a log with its clusters mixed up."""
    folder = tmp_path_factory.mktemp("release") / "bad"
    small_release(folder, misled(small_log()))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Folder of a platform."""
    return tmp_path


@pytest.fixture
def store(home: Path) -> Store:
    """Its empty database."""
    return Store(f"sqlite:///{home}/platform.db", wait_s=10)


@pytest.fixture(scope="session")
def postgres() -> Iterator[int]:
    """Port of a Postgres server of the tests' own; it refuses to run as root, so root lends it another user."""
    pytest.importorskip("psycopg")
    if not (shutil.which("initdb") and shutil.which("postgres")):
        pytest.skip("no Postgres server is installed")
    folder = Path(tempfile.mkdtemp(prefix="mfcp-postgres-"))  # pytest's own folders are closed to other users
    user = _server_user(folder)
    data = folder / "data"
    initdb = ["initdb", "--pgdata", data, "--username", "mfcp", "--auth", "trust", "--no-sync"]
    subprocess.run(initdb, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-c", "fsync=off"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(["postgres", *options], user=user, cwd=folder, stdout=log, stderr=log)
    try:
        until(lambda: (folder / f".s.PGSQL.{port}").exists(), "Postgres listens", 60)
        until(lambda: "ready to accept" in (folder / "log").read_text(), "Postgres is ready", 60)
        yield port
    finally:
        server.send_signal(signal.SIGINT)  # at once: by default it waits for every client to go
        server.wait()
        shutil.rmtree(folder)


def _server_user(folder: Path) -> str | None:
    """A user whom the server may run as, owner of the folder from now on."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()} & {"postgres", "nobody"}
    if not known:
        pytest.skip("Postgres does not run as root, and there is no user postgres or nobody")
    user = max(known)
    shutil.chown(folder, user)
    return user

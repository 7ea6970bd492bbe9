"""The database: waited for where it is busy or gone, never made anew, nothing half-written."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from platform_stores import pending, some_tasks, url

from mfcp.errors import MfcpError, SettingsError
from mfcp.platform.state.store import Store


@contextlib.contextmanager
def locked(path: Path) -> Iterator[subprocess.Popen[str]]:
    """The database held by another process that writes and does not end."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA locking_mode=EXCLUSIVE'); c.execute('BEGIN EXCLUSIVE'); c.execute('DELETE FROM clusters');"
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_locked_database_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfcp.platform.state.database.BUSY_S", 0.2)
    store = Store(url(tmp_path), wait_s=30)
    with locked(tmp_path / "platform.db") as holder:
        release = threading.Timer(1.0, holder.communicate)
        release.start()
        assert store.submit(some_tasks(["t1"])) == 1
        release.join()
    assert pending(store) == ["t1"]
    hurried = Store(url(tmp_path), wait_s=0.3)
    with locked(tmp_path / "platform.db") as holder:
        with pytest.raises(
            MfcpError, match=r"platform\.db: .* cannot be used for 0\.3 s .*locked.*; end other writers"
        ):
            hurried.submit(some_tasks(["t2"]))
        holder.communicate()
    assert hurried.submit(some_tasks(["t2"])) == 1


def test_a_database_that_is_gone_is_waited_for_and_never_made_anew(tmp_path: Path) -> None:
    store = Store(url(tmp_path), wait_s=30)
    store.submit(some_tasks(["t1"]))
    home, away = tmp_path / "platform.db", tmp_path / "away.db"
    home.rename(away)
    back = threading.Timer(1.0, lambda: away.rename(home))
    back.start()
    assert store.submit(some_tasks(["t2"])) == 1
    back.join()
    assert pending(store) == ["t1", "t2"]

    hurried = Store(url(tmp_path), wait_s=0.2)
    home.unlink()
    with pytest.raises(MfcpError, match=r"cannot be used for 0\.2 s \(unable to open database file\)"):
        hurried.pending()
    with pytest.raises(MfcpError, match="unable to open database file"):
        Store(url(tmp_path), wait_s=0.2, make=False)
    assert not home.exists()


FULL = """
import resource, signal, sys
from pathlib import Path
import pandas as pd
from mfcp.errors import MfcpError
from mfcp.platform.state.store import Note, Store
store = Store(sys.argv[1], wait_s=0.3)
store.post([Note("before", 1.0)])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
try:
    store.post([Note("lost", 1.0, content={"text": "x" * 10**6})])
except MfcpError as error:
    print(error, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.post([Note("after", 1.0)])
"""


def test_a_full_disk_writes_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, url(tmp_path)], capture_output=True, text=True, check=True)
    assert "cannot be used for 0.3 s" in done.stdout
    assert "free space" in done.stdout
    assert list(Store(url(tmp_path)).undelivered()["name"]) == ["before", "after"]


def test_what_cannot_be_opened_says_what_to_mend(tmp_path: Path) -> None:
    with pytest.raises(MfcpError, match=r"there is no folder .*/nowhere: mount it"):
        Store(url(tmp_path / "nowhere"), wait_s=0.1)
    (tmp_path / "platform.db").write_bytes(b"not a database at all, but text" * 100)
    with pytest.raises(MfcpError, match=r"file is not a database.*; restore it from a backup"):
        Store(url(tmp_path), wait_s=0.1)
    with pytest.raises(SettingsError, match="in memory"):
        Store("sqlite://")
    with pytest.raises(SettingsError, match="'platform' is not a URL"):
        Store("platform")


def test_a_server_by_url_needs_its_driver_or_an_answer() -> None:
    try:
        import psycopg  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(SettingsError, match=r"pip install 'psycopg\[binary\]'") as raised:
            Store("postgresql+psycopg://user:secret@127.0.0.1:1/name", wait_s=0.2)
    else:
        with pytest.raises(MfcpError, match="start its server") as raised:
            Store("postgresql+psycopg://user:secret@127.0.0.1:1/name", wait_s=0.2)
    assert "secret" not in str(raised.value)

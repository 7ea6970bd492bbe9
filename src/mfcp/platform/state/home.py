"""The folder of one platform, its state and its settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mfcp.errors import MfcpError
from mfcp.files import sqlite_url
from mfcp.settings import Settings

if TYPE_CHECKING:
    from mfcp.platform.state.store import Store


LOG = "data/log"
"""The log in a platform's clone."""


def home_folder(home: str = "") -> Path:
    """The platform's folder: `home` if not empty, else of MFCP_HOME, else `platform` under the working folder."""
    return Path(home or os.environ.get("MFCP_HOME") or "platform").resolve()


def no_platform(home: Path) -> MfcpError:
    """The error for a folder in which there is no platform."""
    return MfcpError(
        f"{home}: no platform here; make it with `make platform`, or set MFCP_HOME to its folder. `mfcp serve` and "
        "`mfcp ui` do with a release: --model data/release"
    )


def require_platform(home: Path) -> None:
    """Raise MfcpError where there is no such folder."""
    if not home.is_dir():
        raise no_platform(home)


def open_store(home: Path, *, wait_s: float = 120.0, new: bool = False) -> Store:
    """The platform's state: the database of MFCP_DATABASE, else `platform.db` in its folder.

    That file is made with a `new` platform only: where there is a platform and no file, it is waited for, since tasks
    that went into an empty one would be lost when it comes back; for `wait_s` seconds at most.

    Raises:
        MfcpError: no platform in this folder, or the database is out of reach.
    """
    from mfcp.platform.state.store import Store  # needs the extra `platform`, which a folder's name does not

    require_platform(home)
    own, whole, url = home / "platform.db", (home / "repo").exists(), os.environ.get("MFCP_DATABASE")
    if not (new or whole or url or own.exists()):
        raise no_platform(home)
    return Store(url or sqlite_url(own), wait_s=wait_s, make=not whole)


def log_folder(home: Path) -> Path:
    """The platform's log, in its own clone; not there before the first delivery."""
    return home / "repo" / LOG


def settings(home: Path) -> Settings:
    """params.yaml of the platform's own clone, `repo`.

    Raises:
        SettingsError: there is none.
    """
    return Settings.load(home / "repo" / "params.yaml")

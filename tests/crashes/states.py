"""What a folder holds at one moment, and what of it a person relies on."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

_RANDOM = re.compile(r"(?<=\.mfcp-)[a-z0-9_]{8}")
_DATABASE = re.compile(r"\.db(-wal|-shm|-journal)?$")


def contents(folder: Path) -> dict[str, str]:
    """Path → digest of every file, and "" of every folder."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(at, name), folder)] = ""
        for name in files:
            path = Path(at, name)
            found[os.path.relpath(path, folder)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def key(found: dict[str, str]) -> str:
    """The same for contents that differ in the names of temporary files, or within a database."""
    named = sorted((_RANDOM.sub("", path), "" if _DATABASE.search(path) else own) for path, own in found.items())
    return hashlib.sha256(repr(named).encode()).hexdigest()


def hidden(path: str) -> bool:
    """Whether a path is of no result: it, or a folder that it is in, has a name that begins with a dot."""
    return any(part.startswith(".") for part in path.split(os.sep))


def results(found: dict[str, str], volatile: str) -> dict[str, str]:
    """The files that a person relies on.

    Args:
        found: of a folder.
        volatile: pattern of paths that differ from run to run.
    """
    return {path: own for path, own in found.items() if own and not hidden(path) and not re.search(volatile, path)}


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder, times of its files included."""
    shutil.copytree(folder, to, symlinks=True)
    return to

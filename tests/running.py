"""Processes and servers that tests start: who lives, what to wait for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Prefect:
    """A running server: its folder, port and API."""

    home: Path
    port: int
    api: str


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition, or fail with what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def written_pid(path: Path) -> int:
    """The process id that a stage wrote, once it has."""
    until(lambda: path.is_file() and path.read_text().endswith("\n"), f"{path.name} is written")
    pid = int(path.read_text())
    assert pid != os.getpid()
    return pid

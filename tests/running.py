"""Processes and servers that tests start: who lives, what to wait for."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO


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


@dataclass(frozen=True)
class Forked:
    """A process of `forked`: its number, and the lines that it tells."""

    pid: int
    told: IO[str]

    def kill(self) -> None:
        """End it at once; it is not reaped before the context ends."""
        os.kill(self.pid, signal.SIGKILL)


@contextmanager
def forked(action: Callable[[Callable[[str], None]], object]) -> Iterator[Forked]:
    """A process that runs `action` until it is killed, at the latest when the context ends.

    It starts with everything imported, where a Python of its own takes seconds. A database of a platform is opened for
    each transaction, so that no open one comes along.

    Args:
        action: gets a function that tells a line.
    """
    read, write = os.pipe()
    with os.fdopen(read) as told:
        with os.fdopen(write, "w") as tells:
            pid = fork(lambda: action(lambda line: print(line, file=tells, flush=True)))
        try:
            yield Forked(pid, told)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def fork(action: Callable[[], object]) -> int:
    """The number of a process that runs `action` and ends: with 0, or with 1 after an error."""
    pid = os.fork()
    if pid:
        return pid
    try:
        action()
        os._exit(0)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)


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

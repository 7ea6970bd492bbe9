"""Run a command in a group of its own that ends, children included, when the starter closes the pipe or dies.

A program rather than a function: a starter killed with SIGKILL can do nothing itself, but the kernel closes its end
of the pipe, and the guard sees that. Usage: `guard.py GRACE_SECONDS COMMAND …` with the pipe as standard input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

GRACE_S = 10.0  # between the interrupt and the kill


def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """Start `command` under a guard; closing the result's `stdin` ends it and all its children.

    Args:
        command: program and arguments.
        options: further ones of `subprocess.Popen` (cwd, env, stdout, …).
    """
    guard = [sys.executable, __file__, str(GRACE_S)]
    return subprocess.Popen([*guard, *command], stdin=subprocess.PIPE, text=True, start_new_session=True, **options)


def stop(process: subprocess.Popen[str]) -> int:
    """End what `start` started, if it still runs; its exit code."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    return process.wait()


def main(arguments: list[str]) -> int:
    """Exit code of the command; a death by signal n becomes 128 + n, as in a shell."""
    grace, command = float(arguments[0]), arguments[1:]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_starter, args=(child.pid, grace), daemon=True).start()
    code = child.wait()
    _end_group(child.pid, grace)  # what a command leaves behind in the background ends with it
    return code if code >= 0 else 128 - code


def _end_with_starter(group: int, grace: float) -> None:
    os.read(0, 1)  # nothing is ever written: this returns when the other end is closed
    _end_group(group, grace)


def _end_group(group: int, grace: float) -> None:
    """Interrupt first, as Ctrl-C does, so that DVC frees its locks and a stage its temporary files; then kill."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGINT)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A Python that has done its imports and forks a process for each program: a fresh one takes seconds to begin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_S = 120.0
_SERVER = """
import importlib, json, os, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
replies = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        code = 1
        try:
            os.chdir(asked["folder"])
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            for number, path in enumerate(asked["written"], 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.argv = ["-c", *asked["arguments"]]
            exec(compile(asked["program"], "<string>", "exec"), {"__name__": "__main__"})
            code = 0
        except SystemExit as end:
            code = end.code or 0
            if not isinstance(code, int):
                print(code, file=sys.stderr)
                code = 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=replies, flush=True)
"""


class WarmPython:
    """Runs programs as `python -c` would, one at a time, each in a process of its own."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._written = server, (folder / "out", folder / "err")

    def run(self, program: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
        """What `python -c PROGRAM ARGUMENTS…` does in this folder; it is ended, and fails, after two minutes."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        words = list(map(str, arguments))
        asked = {"program": program, "arguments": words, "folder": folder, "written": self._written}
        print(json.dumps(asked, default=str), file=self._server.stdin, flush=True)
        watchdog = threading.Timer(_PATIENCE_S, os.killpg, (self._server.pid, signal.SIGKILL))
        watchdog.start()
        code = self._server.stdout.readline()
        watchdog.cancel()
        assert code, f"it did not end within {_PATIENCE_S:g} s, or the process that forks has ended"
        out, err = (path.read_text() for path in self._written)
        return subprocess.CompletedProcess([program, *words], int(code), out, err)


@contextmanager
def warm_python(folder: Path, *options: str, imports: Sequence[str]) -> Iterator[WarmPython]:
    """One that has imported these modules.

    Args:
        folder: for what programs print.
        options: of Python itself, such as `-W error`.
        imports: what most of the programs begin with.
    """
    command = [sys.executable, *options, "-c", _SERVER, *imports]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        try:
            yield WarmPython(server, folder)
        finally:
            os.killpg(server.pid, signal.SIGKILL)

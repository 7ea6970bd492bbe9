"""The folder by which jobs and the platform understand each other, here or behind SSH; see `supervise`."""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from mfcp.border.bounds import Limits as Bounds
from mfcp.border.json_text import parse_json
from mfcp.executors import supervise
from mfcp.executors.base import Batch, UnreachableError

PROGRAM = Path(supervise.__file__)
_TEXTS, _NUMBERS = ("ended_by", "signal", "error", "host", "job"), ("at", "wall_s", "exit_code", "cpu_s", "peak_bytes")


class Spool:
    """Receipts of one cluster.

    Args:
        folder: on its machines, shared between them.
        ssh: arguments that reach a machine of it, such as `ssh -o BatchMode=yes user@login`; empty for this machine.
        python: interpreter there.
        timeout_s: for one request.
    """

    def __init__(self, folder: str, ssh: Sequence[str] = (), python: str = "python3", timeout_s: float = 30.0) -> None:
        self.folder, self.ssh, self.python, self.timeout_s = folder, list(ssh), python, timeout_s
        self._installed = False

    def run(self, *command: str, text: str = "", variables: dict[str, str] | None = None) -> str:
        """What a command prints there.

        Raises:
            UnreachableError: it fails, cannot be started or takes too long.
        """
        told = variables or {}
        if self.ssh:
            remote = [*(f"{name}={value}" for name, value in told.items()), *command]
            whole, environment = [*self.ssh, shlex.join(["env", *remote])], None
        else:
            whole, environment = list(command), {**os.environ, **told}
        name = Path(command[0]).name
        try:
            done = subprocess.run(
                whole, input=text, text=True, capture_output=True, timeout=self.timeout_s, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{name}: no answer within {self.timeout_s:g} s") from None
        except OSError as error:
            raise UnreachableError(f"{whole[0]}: cannot be started ({error.strerror}); is it installed?") from None
        if done.returncode:
            raise UnreachableError(f"{name}: {' '.join(done.stderr.split())[:300] or f'exit code {done.returncode}'}")
        return done.stdout

    def script(self, batch: str, place: str) -> str:
        """The command of a job there; `place` is left to its shell."""
        program = shlex.join([self.python, "-I", "-S", f"{self.folder}/supervise.py", "run", self.folder, batch])
        return f"{program} {place}"

    def place(self, batch: Batch) -> None:
        """Write what a batch is to run, and the program that runs it."""
        limits = {"seconds": batch.limits.seconds, "memory_bytes": batch.limits.memory_bytes}
        content = {"jobs": [{"command": command, **limits} for command in batch.commands]}
        self._ask("place", {"batch": batch.name, "content": content})

    def _install(self) -> None:
        """The program into the folder, once for each object: it may be of another version there."""
        if self._installed:
            return
        folder, path = shlex.quote(self.folder), shlex.quote(f"{self.folder}/supervise.py")
        draft = shlex.quote(f"{self.folder}/.supervise.{os.getpid()}")
        self.run("sh", "-c", f"mkdir -p {folder} && cat > {draft} && mv {draft} {path}", text=PROGRAM.read_text())
        self._installed = True

    def receipts(self, keys: Collection[str]) -> dict[str, dict[str, Any]]:
        """As `supervise.receipts`; what is no receipt counts as an empty one."""
        told = self._ask("receipts", list(keys))
        if not isinstance(told, dict):
            raise UnreachableError(f"{self.folder}: expected receipts, got {type(told).__name__}")
        return {
            key: {
                "begin": _receipt(own.get("begin")) or {},
                "end": _receipt(own.get("end")) or (None if own.get("end") is None else {}),
                "silent_s": number_of(own.get("silent_s")) or 0.0,
            }
            for key, own in told.items()
            if key in keys and isinstance(own, dict)
        }

    def fence(self, keys: Collection[str]) -> list[str]:
        """As `supervise.fence`."""
        told = self._ask("fence", list(keys))
        return [key for key in keys if key in told]

    def forget(self, older_s: float) -> None:
        """As `supervise.forget`."""
        self._ask("forget", older_s)

    def _ask(self, what: str, given: Any) -> Any:
        self._install()
        if self.ssh:
            answer = self.run(
                self.python, "-I", "-S", f"{self.folder}/supervise.py", "ask", self.folder,
                text=json.dumps({"do": what, "with": given}),
            )  # fmt: skip
            return parse_json(answer.encode(), f"answer of {self.ssh[-1]}", Bounds())
        try:
            return supervise.answer(Path(self.folder), what, given)
        except OSError as error:
            raise UnreachableError(f"{self.folder}: {error.strerror or error}") from None


def _receipt(content: Any) -> dict[str, Any] | None:
    """A receipt as a cluster gave it, without what cannot be one's: it comes from a machine of somebody else."""
    if not isinstance(content, dict):
        return None
    known: dict[str, Any] = {name: content[name] for name in _TEXTS if isinstance(content.get(name), str)}
    known |= {name: number for name in _NUMBERS if (number := number_of(content.get(name))) is not None}
    if content.get("fenced") is True:
        known["fenced"] = True
    if isinstance(content.get("report"), dict):
        known["report"] = content["report"]
    return known


def number_of(value: Any) -> float | None:
    """A finite number of a receipt; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None

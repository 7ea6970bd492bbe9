"""Jobs in processes of their own, through the server that forks them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from mfcp.errors import MfcpError

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# The allocator that Arrow brings has a thread in the background, and a process that forks should have none.
_NO_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        result: what it gave; None where it failed.
        error: exception or signal, in one line.
        message: of an error meant for people, such as a file that cannot be executed.
        out_of_memory: an allocation failed, or the kernel took the process for want of memory.
        timed_out: it was ended at its time limit.
        wall_s: seconds from its process's start to its end.
        cpu_s: seconds of processor time in it, of all threads.
        peak_bytes: largest resident memory of its process.
    """

    result: Any = None
    error: str | None = None
    message: str | None = None
    out_of_memory: bool = False
    timed_out: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int | None = None

    @property
    def status(self) -> str:
        """As in table runs."""
        if self.result is not None:
            return "succeeded"
        return "timeout" if self.timed_out else "oom" if self.out_of_memory else "failed"


class Isolation:
    """A context in which jobs run, one at a time, each in a process that its server forks."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Isolation:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, job: str, arguments: dict[str, Any], *, timeout: float, memory: int | None = None) -> Outcome:
        """Run a function of `mfcp.profiling.work.JOBS`.

        Args:
            job: its name.
            arguments: of the function, JSON values.
            timeout: seconds until its process is killed.
            memory: bytes beyond which its allocations fail; None for no limit.

        Raises:
            MfcpError: nothing can be run here, as where a package is missing or broken.
        """
        request = {"job": job, "arguments": arguments, "timeout": timeout, "memory": memory}
        server = self._start()
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(request).encode() + b"\n")
            server.stdin.flush()
            line = server.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            self._stop()
            ended = f"the process that starts runs ended with code {server.returncode}"
            if server.returncode != -signal.SIGKILL:
                raise MfcpError(
                    f"{ended}, for a reason of this installation that is told above; no run was made of it: mend it "
                    "and profile again"
                )
            # The kernel may have taken it instead of its child; the next job gets another one.
            return Outcome(error=ended)
        reply = json.loads(line)
        if "result" not in reply and "error" not in reply and not reply["timed_out"]:
            reply["error"] = reply["signal"] or f"the process ended by itself with exit code {reply['exit_code']}"
        return Outcome(**{field.name: reply[field.name] for field in fields(Outcome) if field.name in reply})

    def _start(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            # Children set their own number of threads; the libraries that the server imports need none.
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "mfcp.profiling.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # an interrupt of the terminal comes to us alone
                env=os.environ | dict.fromkeys(_ONE_THREAD, "1") | _NO_THREAD,
            )
        return self._server

    def _stop(self) -> None:
        if self._server is not None:
            with self._server as server:  # ends when its input does, and its child with it
                assert server.stdin is not None
                with suppress(BrokenPipeError):
                    server.stdin.close()
            self._server = None

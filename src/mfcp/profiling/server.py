"""Has PyTorch imported and forks a child for each run: `python -m mfcp.profiling.server`, a JSON line in, one out.

A child that is forked here needs no imports (seconds), and whatever ends it, a signal, `os._exit` or the kernel, ends
nothing else. Nothing here computes with PyTorch, so that children get no thread pool and no CUDA context to inherit.
A run ends with its child, at its time limit, or when the other side goes away: then standard input ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from mfcp.errors import MfcpError
from mfcp.executors.out_of_memory import tells_memory
from mfcp.executors.supervise import kernel_kills
from mfcp.profiling import work

_POLL_S = 0.2  # a child that left its pipe to processes of its own is still seen to end
_KILL_ON_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Serve requests `{job, arguments, timeout, memory}` until standard input ends."""
    replies = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # what models print is no reply
    for line in sys.stdin.buffer:
        request = json.loads(line)
        work.prepare(request["arguments"])
        reply = _forked(request, nowhere)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _forked(request: dict[str, Any], nowhere: int) -> dict[str, Any]:
    """What became of a job: `result` or `error`, `signal`, `exit_code`, `timed_out`, and what it took."""
    read, write = os.pipe()
    kills = kernel_kills()
    with tempfile.TemporaryFile() as messages:
        started = time.monotonic()
        server = os.getpid()
        child = os.fork()
        if child == 0:
            _serve_in_child(request, server, write, messages, nowhere)
        os.close(write)
        content, ended, timed_out = _collect(child, read, started + request["timeout"])
        os.close(read)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started itself
        _, status, usage = ended
        messages.seek(0)
        said = messages.read()[-4000:].decode(errors="replace")
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    reply: dict[str, Any] = json.loads(content) if content.endswith(b"\n") else {}
    out_of_memory = (number == signal.SIGKILL and kernel_kills() > kills) or (number and tells_memory(said))
    return {
        "out_of_memory": bool(out_of_memory) and not timed_out,
        "signal": None if number is None or timed_out else signal.Signals(number).name,
        "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "timed_out": timed_out,
        "wall_s": time.monotonic() - started,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        **reply,
    }


def _collect(child: int, read: int, deadline: float) -> tuple[bytes, tuple[int, int, Any], bool]:
    """The child's reply, how it ended, and whether it was for its time limit."""
    content = b""
    watched = [0, read]
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            _kill(child)
            return b"", os.wait4(child, 0), True
        ready, _, _ = select.select(watched, [], [], min(left, _POLL_S if read in watched else 0.002))
        if 0 in ready:  # the other side is gone: no request comes while one is under way
            _kill(child)
            os.wait4(child, 0)
            os._exit(0)  # at once: there is nothing to put in order
        if read in ready:
            piece = os.read(read, 1 << 20)
            content += piece
            if not piece:
                watched.remove(read)
            continue
        ended = os.wait4(child, os.WNOHANG)
        if ended[0]:
            return content, ended, False


def _kill(child: int) -> None:
    """End a child and what it has started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has no group yet
        os.kill(child, signal.SIGKILL)


def _serve_in_child(request: dict[str, Any], server: int, write: int, messages: IO[bytes], nowhere: int) -> NoReturn:
    try:
        os.setsid()  # a group of its own, that is killed as one
        os.dup2(nowhere, 0)
        os.dup2(messages.fileno(), 2)
        _die_with(server)
        line = json.dumps(_reply(request)).encode() + b"\n"
        while line:
            line = line[os.write(write, line) :]
    finally:
        os._exit(0)


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    try:
        _limit(request["memory"])
        return {"result": work.JOBS[request["job"]](**request["arguments"])}
    except BaseException as error:  # SystemExit and KeyboardInterrupt of a user's module as well
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        name = type(error).__name__
        return {
            "error": f"{name}: {reason}" if reason else name,
            "message": str(error) if isinstance(error, MfcpError) else None,
            "out_of_memory": isinstance(error, MemoryError) or tells_memory(f"{name} {error}"),
        }


def _die_with(server: int) -> None:
    """Have the kernel end this process when the server is killed; be the first that it takes when memory ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_KILL_ON_PARENTS_DEATH, signal.SIGKILL)
        if os.getppid() != server:  # killed before the line above
            os._exit(1)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def _limit(memory: int | None) -> None:
    """Let allocations beyond `memory` bytes fail: private writable memory, what of it is used or not."""
    if memory is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


if __name__ == "__main__":
    main()

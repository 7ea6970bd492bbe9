"""What runs beside a task on a cluster: one start of an attempt, within its limits, with receipts of begin and end.

`python3 -I -S supervise.py run FOLDER BATCH PLACE` is what a job executes. It needs Python 3.7 or later on Linux and
nothing else, since clusters have no mfcp. FOLDER is one that the cluster's machines and the platform's hand share:

    batches/BATCH.json   what is to run: a list of jobs, of which PLACE is one
    claims/KEY           linked into place by whoever gets the attempt: its job, or the platform that gives it up
    ends/KEY             how it ended, renamed into place
    stops/KEY            asks its supervisor to end it
    output/KEY.out .err  what it printed

A claim is made once, by `link`, which fails where there is one, on NFS as well: however often a scheduler starts a job,
its command is started once, and an attempt that the platform has claimed is never started. The supervisor touches the
claim every second, and ends the command where it cannot: one whose claim is silent does not run.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

BEAT_S = 1.0  # between two signs of life
LEASE_S = 8.0  # a command whose supervisor could give no sign for so long has been ended by it
GRACE_S = 2.0  # from the request to end to the kill
CLAIMED = 75  # exit code of a job whose attempt somebody has: EX_TEMPFAIL
REPORT_BYTES = 65536
MESSAGE = 400  # characters of the last line of an error
FOLDERS = ("batches", "claims", "ends", "stops", "output")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_ENDINGS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


def key_of(batch: str, place: int) -> str:
    """Name of an attempt."""
    return f"{batch}.{place}"


def claim(folder: Path, key: str, content: dict[str, Any]) -> bool:
    """Take an attempt; False where somebody has it."""
    return _put(folder / "claims", key, content, once=True)


def _put(folder: Path, key: str, content: dict[str, Any], *, once: bool = False) -> bool:
    draft = folder / f".{key}.{socket.gethostname()}.{os.getpid()}"
    try:
        with draft.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        if once:
            os.link(str(draft), str(folder / key))
        else:
            os.replace(str(draft), str(folder / key))
        return True
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()


def run(folder: Path, batch: str, place: int) -> int:
    """Claim an attempt, run its command and write how it ended; the exit code of the job."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)  # waited for below, none gets lost before
    key = key_of(batch, place)
    job = json.loads((folder / "batches" / f"{batch}.json").read_text())["jobs"][place]
    begin = {
        "at": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "job": os.environ.get("SLURM_JOB_ID"),
        "cluster": os.environ.get("SLURM_CLUSTER_NAME"),
    }
    if not claim(folder, key, begin):
        return CLAIMED
    report = folder / "output" / f"{key}.report"
    child = _Child(job["command"], folder / "output" / key, {"MFCP_REPORT": str(report), "MFCP_KEY": key})
    kills = kernel_kills()
    why = _watch(child, folder, key, job.get("seconds"), job.get("memory_bytes"))
    if not why and (child.signal == "SIGKILL" or child.exit_code == 128 + signal.SIGKILL) and kernel_kills() > kills:
        why = "memory"
    end: dict[str, Any] = {
        "at": time.time(),
        "wall_s": time.monotonic() - child.started,
        "exit_code": child.exit_code,
        "signal": child.signal,
        "ended_by": why,
        "cpu_s": child.cpu_s,
        "peak_bytes": child.peak_bytes,
        "report": _report(report),
        "error": "" if child.exit_code == 0 and not why else _last_line(folder / "output" / f"{key}.err"),
    }
    _put(folder / "ends", key, end)
    if child.exit_code is None or why:
        return 1
    return child.exit_code


class _Child:
    """A command in a session of its own, which ends as a whole: when its first process does, or this one."""

    def __init__(self, command: str, output: Path, variables: dict[str, str]) -> None:
        self.started = time.monotonic()
        self.exit_code: int | None = None
        self.signal: str | None = None
        self.cpu_s = 0.0
        self.peak_bytes = 0
        self._read, write = os.pipe()
        self._own = os.fork()
        if self._own == 0:
            os.close(self._read)
            _warden(command, output, variables, write)
        os.close(write)

    def over(self) -> bool:
        """Whether it has ended; then how is known, and nothing of it runs any more."""
        if os.waitpid(self._own, os.WNOHANG)[0] == 0:
            return False
        self.kill()
        content = b"".join(iter(lambda: os.read(self._read, 65536), b""))
        os.close(self._read)
        if content.endswith(b"\n"):
            status, self.cpu_s, peak = json.loads(content)
            self.peak_bytes = max(self.peak_bytes, peak)
            if os.WIFSIGNALED(status):
                self.signal = signal.Signals(os.WTERMSIG(status)).name
            else:
                self.exit_code = os.WEXITSTATUS(status)
        else:
            self.signal = "SIGKILL"  # the warden was killed before it could tell
        return True

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Signal all of its processes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._own, how)

    def memory(self) -> int:
        """Resident bytes of its processes now."""
        total, left = 0, _children(self._own)
        while left:
            pid = left.pop()
            left += _children(pid)
            with contextlib.suppress(OSError, IndexError):
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.peak_bytes = max(self.peak_bytes, total)
        return total


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return [int(c) for t in threads for c in Path(f"/proc/{pid}/task/{t}/children").read_text().split()]
    except OSError:
        return []


def _warden(command: str, output: Path, variables: dict[str, str], write: int) -> NoReturn:
    """First process of the session: it outlives the command, and no process of it outlives the supervisor."""
    parent = os.getppid()
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGUSR1)
        if os.getppid() != parent:
            os._exit(1)
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            for descriptor, path in ((1, f"{output}.out"), (2, f"{output}.err")):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.close(write)
            os.execve("/bin/sh", ["sh", "-c", command], {**os.environ, **variables})
        while True:
            told = signal.sigwait({signal.SIGCHLD, signal.SIGUSR1})
            if told == signal.SIGUSR1:
                os.killpg(0, signal.SIGKILL)
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                line = [status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024]
                os.write(write, json.dumps(line).encode() + b"\n")
                break
    finally:
        os._exit(1)


def _watch(child: _Child, folder: Path, key: str, seconds: float | None, memory: int | None) -> str:
    """Wait for the end; why this process has brought it about, empty where it has not."""
    why, deadline = "", 0.0
    beaten = time.monotonic()
    while not child.over():
        now = time.monotonic()
        if why:
            if now > deadline:
                child.kill()
        else:
            why = _reason(child, now, seconds, memory)
            if not why and (folder / "stops" / key).exists():
                why = "stopped"
            if _beat(folder / "claims" / key):
                beaten = now
            elif not why and now - beaten > LEASE_S / 2:
                why = "cut off"
            if why:
                deadline = now + (0.0 if why in ("cut off", "memory") else GRACE_S)
                child.kill(signal.SIGTERM)
        told = signal.sigtimedwait(_ENDINGS, 0.1 if why else min(BEAT_S, 0.5))
        if told is not None and told.si_signo != signal.SIGCHLD and not why:
            why, deadline = "terminated", time.monotonic() + GRACE_S
            child.kill(signal.SIGTERM)
    return why


def kernel_kills() -> int:
    """How often this machine's kernel has killed for want of memory; 0 where it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().split("\n")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _reason(child: _Child, now: float, seconds: float | None, memory: int | None) -> str:
    if memory is not None and child.memory() > memory:
        return "memory"
    return "time" if seconds is not None and now - child.started > seconds else ""


def _beat(path: Path) -> bool:
    try:
        os.utime(str(path))
    except OSError:
        return False
    return True


def _report(path: Path) -> Any:
    """What a task wrote of itself; None where that is nothing, no JSON or too long."""
    try:
        with path.open("rb") as file:
            content = file.read(REPORT_BYTES + 1)
        return None if len(content) > REPORT_BYTES else json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    told = [line.strip() for line in lines if line.strip()]
    return told[-1][:MESSAGE] if told else ""


def make(folder: Path) -> None:
    """The folders, where they are missing."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)


def place(folder: Path, batch: str, content: dict[str, Any]) -> None:
    """Write what a batch is to run."""
    make(folder)
    _put(folder / "batches", f"{batch}.json", content)


def receipts(folder: Path, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`begin`, `end` and seconds of silence of those of these attempts that are claimed."""
    claimed, ended = _names(folder / "claims"), _names(folder / "ends")
    now = _now(folder / "claims") if claimed else 0.0
    found: dict[str, dict[str, Any]] = {}
    for key in keys:
        if key not in claimed:
            continue
        path = folder / "claims" / key
        try:
            silent = max(0.0, now - path.stat().st_mtime)
        except OSError:
            continue
        end = _read(folder / "ends" / key) if key in ended else None
        found[key] = {"begin": _read(path) or {}, "end": end, "silent_s": silent}
    return found


def _names(folder: Path) -> set[str]:
    return {name for name in os.listdir(str(folder)) if not name.startswith(".")} if folder.is_dir() else set()


def _now(folder: Path) -> float:
    """The file server's clock, which stamps the signs of life."""
    probe = folder / f".now.{socket.gethostname()}.{os.getpid()}"
    probe.write_text("")
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink()


def _read(path: Path) -> Any:
    """Content of a receipt; empty where it is none, None where it cannot be read now."""
    try:
        if path.stat().st_size > 4 * REPORT_BYTES:
            return {}
        return json.loads(path.read_text())
    except (ValueError, RecursionError):
        return {}
    except OSError:
        return None


def fence(folder: Path, keys: Iterable[str]) -> list[str]:
    """See that these attempts do not start, and end them where they have; those that will never start."""
    make(folder)
    mine = []
    for key in keys:
        if claim(folder, key, {"fenced": True}) or (_read(folder / "claims" / key) or {}).get("fenced"):
            mine.append(key)
        else:
            (folder / "stops" / key).touch()
    return mine


def forget(folder: Path, older_s: float) -> None:
    """Remove what is of batches placed so long ago; nothing of theirs may run or start any more."""
    for path in (folder / "batches").glob("*.json"):
        try:
            if time.time() - path.stat().st_mtime < older_s:
                continue
            jobs = json.loads(path.read_text())["jobs"]
        except (OSError, ValueError, KeyError):
            continue
        for key in (key_of(path.stem, number) for number in range(len(jobs))):
            kept = (f"claims/{key}", f"ends/{key}", f"stops/{key}", *(f"output/{key}.{e}" for e in _PRINTED))
            for name in kept:
                try:
                    (folder / name).unlink()
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
        path.unlink()


_PRINTED = ("out", "err", "report")


def answer(folder: Path, what: str, given: Any) -> Any:
    """Do what the platform asks for."""
    if what == "place":
        return place(folder, given["batch"], given["content"])
    if what == "receipts":
        return receipts(folder, given)
    return fence(folder, given) if what == "fence" else forget(folder, given)


def main(arguments: list[str]) -> int:
    """`run FOLDER BATCH PLACE`, or `ask FOLDER` with a request in JSON on standard input, whose answer is printed."""
    folder = Path(arguments[1])
    if arguments[0] == "run":
        return run(folder, arguments[2], int(arguments[3]))
    request = json.load(sys.stdin)
    json.dump(answer(folder, request["do"], request.get("with")), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A checkout as DVC sees it: its stages in DVC's own order, one of them reproduced, one pipeline at a time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from flows import guard
from mfcp.environment import OFF
from mfcp.errors import MfcpError
from mfcp.files import locked
from mfcp.tracking import FLOW_RUN

TAIL_LINES = 40
SIGNS = {"Running stage '": "ran", "is cached - skipping run": "restored"}  # what DVC prints about a stage


class StageError(MfcpError):
    """A stage failed: its own last lines say why, since DVC's exit code is 255 whatever happened."""


def stages(root: Path, targets: Sequence[str] = ()) -> list[str]:
    """Names of the stages, dependencies first, exactly as `dvc repro` would visit them.

    Args:
        root: folder of dvc.yaml.
        targets: stages wanted, with everything they depend on (`.dvc` files as well); empty means those of dvc.yaml.

    Raises:
        MfcpError: no DVC repository, or an invalid or unknown stage.
    """
    from dvc.dvcfile import PROJECT_FILE
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

    try:
        with contextlib.chdir(root), Repo() as repo:  # DVC's names are relative to the working folder
            wanted = collect_stages(repo, targets or [PROJECT_FILE])
            return [stage.addressing for stage in plan_repro(get_active_graph(repo.index.graph), wanted)]
    except DvcException as error:
        raise MfcpError(f"{root}: DVC cannot read the pipeline: {error}") from error


def reproduce(
    root: Path, stage: str, *, log: Callable[[str], None], timeout_s: float | None = None, flow_run: str = ""
) -> str:
    """Reproduce one stage if it is stale: "ran", "restored" (its outputs were in DVC's cache) or "unchanged".

    The stage and everything it starts end when this call is left, by an exception or by this process's death.

    Args:
        root: folder of dvc.yaml.
        stage: name of the stage; what it depends on is taken as it is.
        log: called with every line of output as it comes.
        timeout_s: end the stage after so many seconds.
        flow_run: address of the flow run that asks, which the tracking store keeps beside what the stage logs.

    Raises:
        StageError: failed or timed out; the message ends with the stage's last lines.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage]
    process = guard.start(
        command,
        cwd=root,
        env=_environment() | ({FLOW_RUN: flow_run} if flow_run else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
    )
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        guard.stop(process)

    timer = threading.Timer(timeout_s or 0.0, expire)
    if timeout_s:
        timer.start()
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    outcome = "unchanged"
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                tail.append(line)
                if line.strip():
                    log(line.rstrip())
                outcome = next((name for sign, name in SIGNS.items() if sign in line), outcome)
        code = process.wait()
    finally:
        timer.cancel()
        guard.stop(process)
    if code:
        reason = f"was ended after {timeout_s} s" if expired.is_set() else "failed"
        raise StageError(f"stage '{stage}' {reason}; its last lines:\n{''.join(tail)}")
    return outcome


def _environment() -> dict[str, str]:
    """Ours, with `python` meaning this environment's, telemetry off, and no trace of an outer `dvc` run."""
    kept = {key: value for key, value in os.environ.items() if key not in ("DVC_ROOT", "DVC_STAGE")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**OFF, **kept, "PATH": path, "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def only_one(root: Path, wait_s: float) -> Iterator[None]:
    """Hold the checkout's pipeline lock; a lock of the operating system is free at once when its holder dies.

    Args:
        root: folder of dvc.yaml.
        wait_s: seconds to wait for another pipeline to end.

    Raises:
        MfcpError: another pipeline still runs here, or the checkout cannot be written.
    """
    path = root / ".dvc" / "tmp" / "pipeline.lock"
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(path, wait_s=wait_s))
        except BlockingIOError:
            holder = path.read_text().strip() or "unknown"
            raise MfcpError(
                f"{root}: another pipeline runs here (process {holder}); wait for it or raise lock_wait_s"
            ) from None
        with contextlib.suppress(OSError):  # a full disk: who waits is told of an unknown process
            path.write_text(f"{os.getpid()}\n")
        yield

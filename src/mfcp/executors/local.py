"""Processes of this machine: a cluster of one, whose queue is a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from mfcp.executors.base import Account, Batch, ClusterHealth, Executor, JobSeen, Stage, UnreachableError, Watched
from mfcp.executors.spool import Spool
from mfcp.executors.supervise import LEASE_S, key_of


class Local(Executor):
    """Jobs in processes of their own, as many at a time as there are slots, first come first served.

    There is no scheduler: whoever watches starts what may start. Memory and time are kept by each job's supervisor.
    """

    name: ClassVar[str] = "local"
    folder: str = Field(min_length=1, description="absolute folder for queue and receipts, on a local disk")
    slots: int = Field(1, ge=1, description="jobs that run at once")

    @property
    def spool(self) -> Spool:
        """Its folder."""
        return Spool(self.folder, python=sys.executable)

    def submit(self, batch: Batch) -> str:
        """Write it; the id is the batch's name."""
        self.spool.place(batch)
        return batch.name

    def release(self, jobs: Collection[str]) -> None:
        """Marked by a file, and started by the next `watch`."""
        with _reached(self.folder):
            for batch in jobs:
                self._mark(batch).touch()

    def watch(self, keys: Collection[str], owner: str = "") -> dict[str, JobSeen]:
        """Receipts of these jobs; what may start is started first."""
        with _reached(self.folder):
            queue = self._queue()
        receipts = self.spool.receipts({*keys, *queue})
        running = sum(_lives(own) for own in receipts.values())
        for key in queue:
            if key not in receipts and queue[key] == "waiting" and running < self.slots:
                self._start(key)
                running += 1
        found = {}
        for key in keys:
            watched = Watched()
            receipt = receipts.get(key)
            if key in queue:
                stage = queue[key] if receipt is None else "running" if _lives(receipt) else "over"
                watched.add(key.rpartition(".")[0], stage)
            found[key] = watched.seen(receipt)
        return found

    def cancel(self, jobs: Mapping[str, Collection[str]]) -> list[str]:
        """By claims and requests to stop; see `supervise.fence`."""
        return self.spool.fence(jobs)

    def collect(self, keys: Collection[str], since: float) -> dict[str, Account]:
        """One that has begun, left no receipt and gives no sign of life was killed together with its supervisor."""
        receipts = self.spool.receipts(keys)
        return {
            key: Account("node_fail", "its supervisor was killed, or the machine went down")
            for key, own in receipts.items()
            if not own["end"] and own["silent_s"] > LEASE_S
        }

    def health(self) -> ClusterHealth:
        """Always up."""
        return ClusterHealth(up=True)

    def forget(self, older_s: float) -> None:
        """See `supervise.forget`; marks as well."""
        self.spool.forget(older_s)
        with _reached(self.folder):
            folder = Path(self.folder) / "batches"
            for mark in folder.glob("*.released"):
                if not mark.with_suffix(".json").exists():
                    mark.unlink(missing_ok=True)

    def _mark(self, batch: str) -> Path:
        return Path(self.folder) / "batches" / f"{batch}.released"

    def _queue(self) -> dict[str, Stage]:
        """Key → whether it may start, in the order of submission."""
        found: dict[str, Stage] = {}
        folder = Path(self.folder) / "batches"
        for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
            stage: Stage = "waiting" if self._mark(path.stem).exists() else "held"
            jobs = json.loads(path.read_text())["jobs"]
            found |= {key_of(path.stem, place): stage for place in range(len(jobs))}
        return found

    def _start(self, key: str) -> None:
        batch, _, place = key.rpartition(".")
        program = [sys.executable, "-I", "-S", f"{self.folder}/supervise.py", "run", self.folder, batch, place]
        nowhere = subprocess.DEVNULL
        # It is nobody's child: it outlives this process, and init takes what is left of it.
        subprocess.run(
            ["sh", "-c", 'setsid "$@" &', "sh", *program], stdin=nowhere, stdout=nowhere, stderr=nowhere, check=False,
            env=os.environ,
        )  # fmt: skip


@contextmanager
def _reached(folder: str) -> Iterator[None]:
    """What an operation on a folder fails at, as an unreachable cluster."""
    try:
        yield
    except OSError as error:
        raise UnreachableError(f"{folder}: {error.strerror or error}") from None


def _lives(receipt: dict[str, object]) -> bool:
    """Begun, not ended, and not silent for too long; what the platform has claimed does not run."""
    begin = receipt["begin"]
    fenced = isinstance(begin, dict) and begin.get("fenced")
    silent = receipt["silent_s"]
    return not fenced and not receipt["end"] and isinstance(silent, float) and silent <= LEASE_S

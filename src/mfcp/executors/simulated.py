"""A cluster on which jobs only take time: for trying a platform's settings and flows without a cluster."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import Field

from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.executors.base import (
    Account,
    Batch,
    ClusterHealth,
    Executor,
    JobSeen,
    RefusedError,
    Stage,
    Status,
    UnreachableError,
)
from mfcp.executors.supervise import LEASE_S
from mfcp.files import locked, write_json

# Status of an end that leaves a receipt → who brought it about there; others are told by the books alone.
_RECEIVED = {"succeeded": "", "failed": "", "timeout": "time", "oom": "memory", "cancelled": "stopped"}


class Simulated(Executor):
    """Jobs whose command is `take SECONDS [STATUS]`, first come first served.

    When each begins and ends follows from when all were released, so nothing runs and nobody has to be there. An end
    is told with a receipt, unless a node has failed.
    """

    name: ClassVar[str] = "simulated"
    outlives: ClassVar[float] = 0.2
    folder: str = Field(min_length=1, description="folder for the state")
    slots: int = Field(1, ge=1, description="jobs that run at once")
    speed: float = Field(1.0, gt=0, description="seconds there for one here")

    @property
    def lease_s(self) -> float:
        """As fast as all else there."""
        return LEASE_S / self.speed

    def submit(self, batch: Batch) -> str:
        """Note it as held."""
        for command in batch.commands:
            taken(command)
        with self._state() as state:
            state["jobs"] |= {
                key: {"command": command, "limit": batch.limits.seconds}
                for key, command in zip(batch.keys, batch.commands, strict=True)
            }
        return batch.name

    def release(self, jobs: Collection[str]) -> None:
        """From now on they wait."""
        with self._state() as state:
            for key, own in state["jobs"].items():
                if key.rpartition(".")[0] in jobs:
                    own.setdefault("released", self._now())

    def watch(self, keys: Collection[str], owner: str = "") -> dict[str, JobSeen]:
        """As of now."""
        with self._state() as state:
            times = self._times(state["jobs"])
        return {key: self._seen(state["jobs"].get(key), times.get(key), key) for key in keys}

    def cancel(self, jobs: Mapping[str, Collection[str]]) -> list[str]:
        """At once; what runs ends without receipt."""
        now, unstarted = self._now(), []
        with self._state() as state:
            times = self._times(state["jobs"])
            for key in jobs:
                own = state["jobs"].setdefault(key, {"command": "take 0", "limit": 0.0})
                if key not in times or times[key][0] > now:
                    own["fenced"] = True
                    unstarted.append(key)
                else:
                    own.setdefault("stopped", now)
        return unstarted

    def collect(self, keys: Collection[str], since: float) -> dict[str, Account]:
        """Those that have ended."""
        now = self._now()
        with self._state() as state:
            times, jobs = self._times(state["jobs"]), state["jobs"]
        return {
            key: Account(_status(jobs[key], end - begin), "simulated", end - begin)
            for key in keys
            if key in times and times[key][1] <= now
            for begin, end in [times[key]]
        }

    def health(self) -> ClusterHealth:
        """Up, unless a file `down` in its folder says why not."""
        down = Path(self.folder) / "down"
        return ClusterHealth(up=False, why=down.read_text().strip()) if down.exists() else ClusterHealth(up=True)

    def _now(self) -> float:
        return time.time() * self.speed

    @contextmanager
    def _state(self) -> Iterator[dict[str, Any]]:
        """The file, locked; what was changed is written when the block ends without error."""
        path = Path(self.folder) / "jobs.json"
        try:
            with locked(path.with_name("lock"), wait_s=10.0):
                content: dict[str, Any] = read_json(path) if path.exists() else {"jobs": {}}
                before = repr(content)
                yield content
                if repr(content) != before:
                    write_json(path, content)
        except (OSError, DataError) as error:
            raise UnreachableError(f"{self.folder}: {error}") from None

    def _times(self, jobs: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
        """Begin and end of every job that is released and not given up."""
        free, times = [0.0] * self.slots, {}
        waiting = [(own["released"], key) for key, own in jobs.items() if "released" in own and "fenced" not in own]
        for released, key in sorted(waiting):
            own, slot = jobs[key], free.index(min(free))
            begin = max(released, free[slot])
            end = begin + min(taken(own["command"])[0], own["limit"])
            free[slot] = max(begin, min(end, own.get("stopped", end)))
            times[key] = (begin, free[slot])
        return times

    def _seen(self, own: dict[str, Any] | None, times: tuple[float, float] | None, key: str) -> JobSeen:
        if own is None:
            return JobSeen()
        batch = key.rpartition(".")[0]
        if own.get("fenced"):
            return JobSeen("over", (batch,), {"fenced": True}, None, 0.0)
        if times is None:
            return JobSeen("held", (batch,))
        now, (begin, end) = self._now(), times
        stage: Stage = "waiting" if now < begin else "running" if now < end else "over"
        if stage == "waiting":
            return JobSeen(stage, (batch,))
        told = {"at": begin / self.speed}
        status = _status(own, end - begin)
        over = None
        if stage == "over" and status in _RECEIVED:
            over = {"at": end / self.speed, "wall_s": end - begin, "ended_by": _RECEIVED[status]}
            over |= {} if _RECEIVED[status] else {"exit_code": int(status == "failed")}
        return JobSeen(stage, (batch,), told, over, max(0.0, now - end) / self.speed)


def taken(command: str) -> tuple[float, Status]:
    """Seconds and status of a simulated command.

    Raises:
        RefusedError: it is none.
    """
    words = shlex.split(command)
    known = ("succeeded", "failed", "oom", "node_fail")
    try:
        if (
            words[0] != "take"
            or len(words) > 3
            or not 0 <= float(words[1]) < 1e9
            or (words[2:] and words[2] not in known)
        ):
            raise ValueError
    except (ValueError, IndexError):
        raise RefusedError(
            f"'{command}': a simulated cluster runs `take SECONDS [STATUS]`, with a status of {', '.join(known)}"
        ) from None
    return float(words[1]), cast(Status, words[2] if words[2:] else "succeeded")


def _status(own: dict[str, Any], seconds: float) -> Status:
    wanted, status = taken(own["command"])
    if "stopped" in own and seconds < min(wanted, own["limit"]):
        return "cancelled"
    return "timeout" if wanted > own["limit"] else status

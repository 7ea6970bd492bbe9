"""A cluster under Slurm, by `sbatch`, `squeue`, `sacct`, `scontrol`, `scancel` and `sinfo`, here or over SSH."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, cast

from pydantic import Field

from mfcp.data.sources.slurm_states import ENDED, amount, status_of, trackable
from mfcp.executors.base import (
    Account,
    Batch,
    ClusterHealth,
    Executor,
    JobLimits,
    JobSeen,
    RefusedError,
    Stage,
    Status,
    UnreachableError,
    Watched,
)
from mfcp.executors.spool import Spool
from mfcp.executors.supervise import key_of

PREFIX = "mfcp-"
_TAKES = {"idle", "mixed", "allocated", "completing", "planned", "reserved"}
_ACCOUNT = ("JobID", "JobName", "State", "ExitCode", "ElapsedRaw", "MaxRSS", "AllocTRES")
_GROUP = 200  # names in one command line
# Of what sbatch says when it takes a job neither now nor later; the rest may pass, such as a limit of jobs at once.
_NEVER = ("invalid", "can not be satisfied", "unrecognized", "not permitted")
_NO_NODE = "node configuration is not available"  # as well while its nodes are drained
# Reasons of pending jobs that do not pass by themselves.
_STUCK = {
    "BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "InvalidAccount", "InvalidQOS", "AccountNotAllowed",
    "QOSNotAllowed",
}  # fmt: skip
_LATE_S = 60  # that Slurm's own limit lies beyond the supervisor's, which tells a timeout from a cancellation


class Slurm(Executor):
    """Batches are arrays: held until their id is recorded, looked up by name since ids are given out again."""

    name: ClassVar[str] = "slurm"
    folder: str = Field(pattern="^/[^\n]*$", description="absolute folder for receipts, shared by login and nodes")
    conf: str = Field("", description="SLURM_CONF, where it is not that of the machine")
    cluster: str = Field("", description="as for -M, where one Slurm knows several clusters")
    ssh: tuple[str, ...] = Field(
        (), description="command that reaches a login node: [ssh, -o, BatchMode=yes, user@host]"
    )
    options: tuple[str, ...] = Field((), description="further ones of sbatch: --partition=gpu, --account=…, --qos=…")
    gpu: str = Field("gpu", description="name of its GPUs in gres, such as gpu:a100")
    python: str = Field("python3", description="Python 3.7 or later on the nodes")
    accounting: bool = Field(True, description="whether the site has slurmdbd; without, jobs that were killed are lost")
    timeout_s: float = Field(30.0, gt=0, description="for one command")

    @property
    def spool(self) -> Spool:
        """Its receipts."""
        return Spool(self.folder, self.ssh, self.python, self.timeout_s)

    def needs(self, limits: JobLimits) -> list[str]:
        """Options of `sbatch` for a job that may use so much, the cluster's own among them; not its time."""
        memory = [] if limits.memory_bytes is None else [f"--mem={math.ceil(limits.memory_bytes / 2**20)}M"]
        gpus = [f"--gres={self.gpu}:{limits.gpus}"] if limits.gpus else []
        fixed = [f"--cpus-per-task={limits.cpus}", "--nodes=1", "--ntasks=1", "--no-requeue"]
        return [*fixed, *self.options, *memory, *gpus]

    def submit(self, batch: Batch) -> str:
        """As a held array, which Slurm takes whole or not at all."""
        spool, limits = self.spool, batch.limits
        spool.place(batch)
        minutes = math.ceil((limits.seconds + _LATE_S) / 60)
        options = [
            "--parsable", "--hold", f"--job-name={batch.name}", f"--array=0-{len(batch.commands) - 1}",
            f"--time={minutes}", "--output=/dev/null", f"--chdir={self.folder}", *self.needs(limits),
        ]  # fmt: skip
        script = f"#!/bin/sh\nexec {spool.script(batch.name, '$SLURM_ARRAY_TASK_ID')}\n"
        try:
            # Of a held job Slurm does not check that there are nodes for it, and would let it wait for good.
            self._run("sbatch", "--test-only", *(option for option in options if option != "--hold"), text=script)
            return self._run("sbatch", *options, text=script).strip().split(";")[0]
        except UnreachableError as error:
            said = str(error).lower()
            if any(sign in said for sign in _NEVER) or (_NO_NODE in said and self.health().up):
                raise RefusedError(str(error)) from None
            raise

    def release(self, jobs: Collection[str]) -> None:
        """Whole arrays."""
        for part in _parts(sorted(jobs, key=int)):
            self._run("scontrol", "release", ",".join(part))

    def watch(self, keys: Collection[str], owner: str = "") -> dict[str, JobSeen]:
        """One `squeue` of this user's jobs, and the receipts."""
        found = {key: Watched() for key in keys}
        for line in self._run("squeue", "-h", "-r", "-t", "all", "--me", "-o", "%j|%F|%K|%T|%r").splitlines():
            if not line.startswith(PREFIX):
                continue
            name, array, place, state, reason = line.split("|", 4)
            key = f"{name}.{place}"
            if owner and name.startswith(owner) and key not in found and _stage(state, reason) != "over":
                found[key] = Watched()
            if key in found:
                never = state == "PENDING" and reason in _STUCK
                stage = "over" if never else _stage(state, reason)
                found[key].add(array, stage, f"pending: {reason}" if never else "")
        receipts = self.spool.receipts(list(found))
        return {key: watched.seen(receipts.get(key)) for key, watched in found.items()}

    def cancel(self, jobs: Mapping[str, Collection[str]]) -> list[str]:
        """Receipts first: they hold even where the controller forgets what it was told."""
        fenced = self.spool.fence(jobs)
        self.drop(jobs)
        return fenced

    def drop(self, jobs: Mapping[str, Collection[str]]) -> None:
        """By `scancel`; one that is over by now is no error."""
        arrays: dict[str, list[str]] = {}
        for key, own in jobs.items():
            for array in own:
                arrays.setdefault(array, []).append(key.rpartition(".")[2])
        for array, places in arrays.items():
            for part in _parts(places):
                try:
                    self._run("scancel", "--me", "--quiet", f"{array}_[{','.join(part)}]")
                except UnreachableError as error:
                    if "Invalid job id" not in str(error):
                        raise

    def collect(self, keys: Collection[str], since: float) -> dict[str, Account]:
        """One `sacct` by names, since ids come again; of several lines of a job the last that ran, else the last."""
        wanted, found = set(keys), dict[str, Account]()
        if not self.accounting:
            return found
        seconds = math.ceil(time.time() - since) + 60
        for part in _parts(sorted({key.rpartition(".")[0] for key in keys})):
            text = self._run(
                "sacct", "-nPD", f"--name={','.join(part)}", "-S", f"now-{seconds}seconds", "-o", ",".join(_ACCOUNT)
            )  # fmt: skip
            for key, account in accounts(text.splitlines()):
                if key in wanted and (key not in found or account.wall_s or not found[key].wall_s):
                    found[key] = account
        return found

    def health(self) -> ClusterHealth:
        """Whether a node takes jobs, and how long what others have queued keeps the cluster busy, at most."""
        states = [line.split("|", 2) for line in self._run("sinfo", "-h", "-o", "%T|%C|%E").splitlines() if "|" in line]
        up = any(state.rstrip("*~#!%$@^-") in _TAKES and not state.endswith("*") for state, *_ in states)
        cores = sum(int(counts.split("/")[-1]) for _, counts, _ in states)
        why = "; ".join(sorted({f"{state}: {why}" for state, _, why in states}))
        return ClusterHealth(up, "" if up else why or "no node", self._others() / cores if cores else 0.0)

    def _others(self) -> float:
        """Core seconds that jobs that are not the platform's may still take, by their own limits."""
        total = 0.0
        for line in self._run("squeue", "-h", "-r", "-t", "PD,R", "-o", "%j|%L|%C|%r").splitlines():
            name, left, cores, reason = line.rsplit("|", 3)
            if not name.startswith(PREFIX) and not reason.startswith("JobHeld"):
                total += seconds_of(left) * (int(cores) if cores.isdigit() else 0)
        return total

    def forget(self, older_s: float) -> None:
        """See `supervise.forget`."""
        self.spool.forget(older_s)

    def _run(self, command: str, *arguments: str, text: str = "") -> str:
        variables = {"SLURM_TIME_FORMAT": "%s", **({"SLURM_CONF": self.conf} if self.conf else {})}
        where = ["-M", self.cluster] if self.cluster else []
        return self.spool.run(command, *where, *arguments, text=text, variables=variables)


def _stage(state: str, reason: str) -> Stage:
    if state in ENDED:
        return "over"
    if state != "PENDING":
        return "running"  # or about to, or suspended, or completing: it may be alive
    return "held" if reason.startswith("JobHeld") else "waiting"


def accounts(lines: Iterable[str]) -> Iterator[tuple[str, Account]]:
    """Key and account of every ended element of an array in sacct's lines of `_ACCOUNT`; steps follow their job."""
    jobs: list[dict[str, str]] = []
    peak: dict[int, float] = {}
    for line in lines:
        row = dict(zip(_ACCOUNT, line.split("|"), strict=False))
        if "." not in row["JobID"]:
            jobs.append(row)
        elif jobs and row["JobID"].split(".")[0] == jobs[-1]["JobID"]:
            peak[len(jobs) - 1] = max(peak.get(len(jobs) - 1, 0.0), amount(row.get("MaxRSS", "")) or 0.0)
    for number, row in enumerate(jobs):
        place = row["JobID"].partition("_")[2]
        memory = amount(trackable(row["AllocTRES"]).get("mem", ""))
        status = status_of(row["State"], row["ExitCode"], peak.get(number), memory)
        if status is None or not place.isdigit():
            continue
        wall = float(row["ElapsedRaw"] or 0)
        told = f"{row['State']}, exit code {row['ExitCode']}"
        yield key_of(row["JobName"], int(place)), Account(cast(Status, status), told, wall or None)


def seconds_of(text: str) -> float:
    """Seconds of what Slurm prints as `1-02:03:04`, `03:04` or `UNLIMITED`; 0 where it is no time."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, *([days] if dash else [])]):
        return 0.0
    total = 0.0
    for part in parts:
        total = 60 * total + int(part)
    return total * (60 if len(parts) == 1 and not dash else 1) + (86400 * int(days) if dash else 0)


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _GROUP] for start in range(0, len(names), _GROUP))

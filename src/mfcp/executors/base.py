"""The family: what the platform asks of a cluster, and what it is told."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from mfcp.errors import MfcpError
from mfcp.executors.supervise import LEASE_S, key_of
from mfcp.registry import Registered, import_members

Stage = Literal["held", "waiting", "running", "over", "unknown"]
Status = Literal["succeeded", "failed", "timeout", "oom", "cancelled", "node_fail", "lost"]


class UnreachableError(MfcpError):
    """The cluster does not answer: nothing is known of it, and nothing is decided about what runs there."""


class RefusedError(MfcpError):
    """The cluster does not take a batch, now or later."""


@dataclass(frozen=True)
class JobLimits:
    """What a job may take.

    Attributes:
        seconds: of wall clock.
        memory_bytes: resident, of all its processes.
        cpus, gpus: that it gets.
    """

    seconds: float
    memory_bytes: int | None = None
    cpus: int = 1
    gpus: int = 0


@dataclass(frozen=True)
class Batch:
    """Jobs with the same limits that are handed to a cluster at once, all or none.

    Attributes:
        name: unique for good; a job's key is the name and its place.
        commands: of the jobs, for a shell.
        limits: of each.
    """

    name: str
    commands: Sequence[str]
    limits: JobLimits

    @property
    def keys(self) -> list[str]:
        """The jobs' keys, in order."""
        return [key_of(self.name, place) for place in range(len(self.commands))]


@dataclass(frozen=True)
class JobSeen:
    """What is known of a job at one moment.

    Attributes:
        stage: as the cluster's scheduler has it; "unknown" where it does not know the job.
        jobs: ids there of its batch, of which there should be one; those that live where some do.
        begin: receipt of its start, None where it has not started. A platform that gave it up has claimed it instead.
        end: receipt of its end, None where there is none.
        silent_s: seconds since its last sign of life, None where it has not started.
        why: it will never start, in the scheduler's words; it counts as over then.
    """

    stage: Stage = "unknown"
    jobs: tuple[str, ...] = ()
    begin: Mapping[str, Any] | None = None
    end: Mapping[str, Any] | None = None
    silent_s: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Account:
    """How a job ended by the cluster's books.

    Attributes:
        status: as in table runs.
        why: in its own words.
        wall_s: seconds, None where it did not start or the books do not tell.
    """

    status: Status
    why: str
    wall_s: float | None = None


@dataclass(frozen=True)
class ClusterHealth:
    """Whether a cluster takes tasks.

    Attributes:
        up: it does.
        why: what its scheduler says, where it does not.
        others_s: seconds that what others have in its queue keeps it busy, at most.
    """

    up: bool
    why: str = ""
    others_s: float = 0.0


class Executor(Registered):
    """Runs jobs on one cluster. All state is there: an executor may be made anew at any moment.

    Every method raises UnreachableError where the cluster does not answer.
    """

    outlives: ClassVar[float] = 12.0
    """Seconds for which a job that the scheduler accepted may be unknown to it, as while it starts again."""

    @property
    def lease_s(self) -> float:
        """Seconds without a sign of life after which a job does not run any more."""
        return LEASE_S

    @abstractmethod
    def submit(self, batch: Batch) -> str:
        """Hand in a batch whose jobs wait until they are released; its id there.

        A batch of this name must not be known there, or have been lost.

        Raises:
            RefusedError: it will never run here; the message says why.
        """

    @abstractmethod
    def release(self, jobs: Collection[str]) -> None:
        """Let batches start, by ids that `submit` or `watch` has just given."""

    @abstractmethod
    def watch(self, keys: Collection[str], owner: str = "") -> dict[str, JobSeen]:
        """What is known of every one of these jobs, by one query.

        Args:
            keys: of jobs.
            owner: what names of the platform's batches begin with; others of its jobs that the scheduler takes for
                alive are told as well.
        """

    @abstractmethod
    def cancel(self, jobs: Mapping[str, Collection[str]]) -> list[str]:
        """End jobs and see that none of them starts any more; the keys of those that will never have started.

        Args:
            jobs: key → ids that `watch` has just seen of it.
        """

    @abstractmethod
    def collect(self, keys: Collection[str], since: float) -> dict[str, Account]:
        """How jobs ended by the cluster's books; without those that the books do not know, or not as ended.

        Args:
            keys: of jobs.
            since: seconds since the epoch before all of them were handed in.
        """

    @abstractmethod
    def health(self) -> ClusterHealth:
        """Whether the cluster takes tasks."""

    def drop(self, jobs: Mapping[str, Collection[str]]) -> None:
        """Take jobs out of the queue; arguments as of `cancel`, receipts are left alone."""

    def forget(self, older_s: float) -> None:
        """Remove what is left of jobs that ended longer ago."""


def import_executors() -> None:
    """Import every module of this package, so that its executors register themselves."""
    import_members("mfcp.executors")


@dataclass
class Watched:
    """What a scheduler says of a key: its ids and stages, in the order in which they came."""

    stages: dict[str, Stage] = field(default_factory=dict)
    why: str = ""

    def add(self, job: str, stage: Stage, why: str = "") -> None:
        """One line of it."""
        self.stages[job] = stage
        self.why = self.why or why

    def seen(self, receipt: Mapping[str, Any] | None) -> JobSeen:
        """Together with receipts: those that live count above those that are over."""
        live = {job: stage for job, stage in self.stages.items() if stage != "over"}
        known = live or self.stages
        receipt = receipt or {}
        stages = list(known.values())
        stage: Stage = "unknown" if not stages else "running" if "running" in stages else stages[0]
        return JobSeen(stage, tuple(known), receipt.get("begin"), receipt.get("end"), receipt.get("silent_s"), self.why)

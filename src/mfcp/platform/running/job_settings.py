"""What runs a platform's tasks: its clusters, and the command, limits and retries of a task."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mfcp.data.log.schema import CLUSTERS, TASKS
from mfcp.errors import SettingsError
from mfcp.executors.base import Executor, JobLimits, Status, import_executors

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

NAMES = (*(column.name for column in TASKS.columns), "cluster_id", "attempt", "seconds", "cpus", "gpus")
"""What a command may name in braces."""


class RetrySettings(BaseModel):
    """When a task is tried again, on another cluster where there is one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    times: int = Field(2, ge=0, description="further attempts of a task at most; those lost before they began are free")
    after: tuple[Status, ...] = Field(
        ("failed", "timeout", "oom", "cancelled", "node_fail", "lost"), description="ends that are tried again"
    )
    memory: float = Field(1.0, ge=1, description="factor on the memory of a run that follows one that had too little")


class JobSettings(BaseModel):
    """How tasks run, unless their cluster or `mfcp platform submit` says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: str = Field("", description="for a shell, columns of table tasks in braces: train.py --model {model}")
    seconds: float = Field(3600.0, gt=0, le=1e7, description="wall clock of a run at most")
    memory_bytes: int | None = Field(None, ge=1, description="resident memory of a run at most")
    cpus: int = Field(1, ge=1)
    gpus: int = Field(0, ge=0)
    retry: RetrySettings = RetrySettings()
    compare: float = Field(
        0.0, ge=0, le=1, description="share of tasks that, once done, run on another cluster too, to compare releases"
    )
    move_s: float = Field(
        300.0,
        ge=0,
        description="that what has not begun waits on a cluster that takes no jobs before it goes elsewhere",
    )
    array: int = Field(1000, ge=1, le=100_000, description="jobs handed in at once; Slurm's MaxArraySize - 1 at most")
    poll_s: float = Field(1.0, gt=0, description="between two looks at the clusters")
    health_s: float = Field(10.0, ge=0, description="between two looks at their nodes and at what others have queued")
    deliver_s: float = Field(30.0, ge=0, description="that a finished run waits for others of its delivery at most")
    books_s: float = Field(60.0, ge=0, description="to wait for accounting to tell of a job that left no receipt")
    keep_s: float = Field(30 * 86400.0, gt=0, description="that receipts and output of ended jobs are kept")

    @field_validator("command")
    @classmethod
    def _names(cls, value: str) -> str:
        check_command(value)
        return value

    @property
    def limits(self) -> dict[str, Any]:
        """Fields of `JobLimits`."""
        return {name: getattr(self, name) for name in ("seconds", "memory_bytes", "cpus", "gpus")}

    def limits_after(self, status: Status, limits: Mapping[str, Any]) -> dict[str, Any]:
        """Limits of the run that follows one with these."""
        memory = limits.get("memory_bytes")
        more = {"memory_bytes": math.ceil(memory * self.retry.memory)} if status == "oom" and memory is not None else {}
        return {**limits, **more}


class ClusterSettings(BaseModel):
    """One real cluster of a platform."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    executor: Any = Field(description="a kind of executor with its settings")
    command: str = Field("", description="in place of run.command")
    slots: int = Field(1, ge=1, description="tasks that it runs at once, by which its backlog is divided")
    figures: Mapping[str, Any] = Field({}, description="its row of table clusters, beside cluster_id")

    @field_validator("executor", mode="before")
    @classmethod
    def _built(cls, value: Any) -> Any:
        import_executors()
        return Executor.parse(value)

    @field_validator("command")
    @classmethod
    def _names(cls, value: str) -> str:
        check_command(value)
        return value

    @field_validator("figures")
    @classmethod
    def _columns(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {column.name for column in CLUSTERS.columns} - {"cluster_id"}
        if unknown := set(value) - known:
            raise ValueError(f"{sorted(unknown)}: no columns of table clusters; these are {sorted(known)}")
        return value


def rows_of(tables: Tables) -> dict[str, dict[str, Any]]:
    """Task → what is known of it."""
    rows = tables["tasks"].astype(object).to_dict("records")
    return {str(row["task_id"]): {str(k): v for k, v in row.items() if v == v} for row in rows}


def check_command(command: str) -> None:
    """Raise ValueError where a command names in braces what it does not get."""
    try:
        named = [name for _, name, form, conversion in Formatter().parse(command) if name is not None]
        odd = [name for name in named if name not in NAMES]
    except ValueError as error:
        raise ValueError(f"'{command}': {error}; a brace of the shell is written twice: ${{{{HOME}}}}") from None
    if odd:
        raise ValueError(
            f"'{command}': {{{odd[0]}}} is not known; in braces stand {', '.join(NAMES)}, and a brace of the shell is "
            "written twice: ${{HOME}}"
        )


def command_of(template: str, row: Mapping[str, Any], cluster: str, attempt: int, limits: JobLimits) -> str:
    """The command of an attempt; values are quoted for the shell, since whoever submits a task writes them.

    Args:
        template: see `check_command`.
        row: of table tasks.
        cluster: that it runs on.
        attempt: its number.
        limits: of the job.

    Raises:
        SettingsError: there is none, or the task lacks a value that it needs.
    """
    if not template.strip():
        raise SettingsError(
            "platform.run.command: there is none; say what runs a task, such as train.py --model {model}"
        )
    values = {
        **row, "cluster_id": cluster, "attempt": attempt, "seconds": limits.seconds, "cpus": limits.cpus,
        "gpus": limits.gpus,
    }  # fmt: skip
    named = {name for _, name, _, _ in Formatter().parse(template) if name}
    if lacking := sorted(name for name in named if values.get(name) is None):
        raise SettingsError(f"the command needs {', '.join(lacking)} of the task, which is not known")
    return template.format_map({name: shlex.quote(str(value)) for name, value in values.items()})

"""Plans for other hands than the platform's: `sbatch` scripts, and jobs of Kubernetes that Kueue admits."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mfcp.executors.base import Executor, JobLimits
from mfcp.executors.slurm import Slurm

QUEUE = "kueue.x-k8s.io/queue-name"
_LABEL = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True)
class PlannedTask:
    """A task of a plan.

    Attributes:
        task_id, cluster_id: which, and where.
        command: for a shell.
        limits: of its run.
    """

    task_id: str
    cluster_id: str
    command: str
    limits: JobLimits


def sbatch_scripts(
    plan: Sequence[PlannedTask], name: str, executors: Mapping[str, Executor] | None = None, array: int = 1000
) -> dict[str, str]:
    """Scripts by cluster and limits, each an array with a job a task; file name → text.

    Args:
        plan: tasks with their clusters.
        name: of the jobs, such as `round-7`.
        executors: cluster → how the platform would run its tasks; options that it gives to `sbatch` are in the scripts.
        array: jobs of a script at most; Slurm's MaxArraySize - 1.
    """
    groups: dict[tuple[str, JobLimits], list[PlannedTask]] = {}
    for one in plan:
        groups.setdefault((one.cluster_id, one.limits), []).append(one)
    parts = [
        (cluster, limits, same[first : first + array])
        for (cluster, limits), same in groups.items()
        for first in range(0, len(same), array)
    ]
    scripts: dict[str, str] = {}
    for cluster, limits, own in parts:
        executor = (executors or {}).get(cluster)
        slurm = executor if isinstance(executor, Slurm) else Slurm(folder="/")
        number = sum(name_.startswith(f"{_plain(cluster)}-") for name_ in scripts)
        options = [
            f"--job-name={name}", f"--array=0-{len(own) - 1}", f"--time={math.ceil(limits.seconds / 60)}",
            *map(shlex.quote, slurm.needs(limits)),
        ]  # fmt: skip
        options += [f"--clusters={slurm.cluster}"] if slurm.cluster else []
        cases = "\n".join(
            f"{place}) # {_comment(one.task_id)}\n  exec sh -c {shlex.quote(one.command)} ;;"
            for place, one in enumerate(own)
        )
        lines = "\n".join(f"#SBATCH {option}" for option in options)
        scripts[f"{_plain(cluster)}-{number}.sh"] = (
            f'#!/bin/sh\n{lines}\n# for cluster {_comment(cluster)}\ncase "$SLURM_ARRAY_TASK_ID" in\n{cases}\nesac\n'
        )
    return scripts


def kubernetes_jobs(plan: Sequence[PlannedTask], image: str) -> list[dict[str, Any]]:
    """A suspended Job a task, for the local queue that has its cluster's name; Kueue starts it when it has quota.

    Args:
        plan: tasks with their clusters.
        image: that every task runs in.
    """
    return [_job(one, image) for one in plan]


def _job(one: PlannedTask, image: str) -> dict[str, Any]:
    amounts: dict[str, str] = {"cpu": str(one.limits.cpus)}
    if one.limits.memory_bytes is not None:
        amounts["memory"] = str(one.limits.memory_bytes)
    if one.limits.gpus:
        amounts["nvidia.com/gpu"] = str(one.limits.gpus)
    container = {
        "name": "task",
        "image": image,
        "command": ["/bin/sh", "-c", one.command],
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"mfcp-{hashlib.sha256(one.task_id.encode()).hexdigest()[:16]}",  # the same for the same task
            "labels": {QUEUE: _dns(one.cluster_id)},
            "annotations": {"mfcp/task": one.task_id, "mfcp/cluster": one.cluster_id},
        },
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "activeDeadlineSeconds": max(1, math.ceil(one.limits.seconds)),
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _dns(name: str) -> str:
    """A name as Kubernetes takes it."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:63].strip("-") or "cluster"


def _plain(name: str) -> str:
    return _LABEL.sub("-", name) or "cluster"


def _comment(text: str) -> str:
    """On one line: what comes after it would be run."""
    return " ".join(text.split())

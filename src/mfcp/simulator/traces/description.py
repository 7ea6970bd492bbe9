"""What a trace looks like: a fingerprint, the load it offers, and what contradicts itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs

SIZES = (1, 2, 4, 8)
"""Size classes of jobs begin at these numbers of accelerators."""


def size_class(gpus: np.ndarray) -> np.ndarray:
    """(n,) `1`, `2-3`, `4-7` or `8+`."""
    names = np.array(["1", "2-3", "4-7", "8+"])
    return names[np.searchsorted(SIZES, gpus, side="right") - 1]


def describe_trace(jobs: Jobs, cluster: Cluster) -> dict[str, Any]:
    """What one should know before comparing policies on a trace.

    Returns:
        `fingerprint` of submissions, accelerators and durations; `jobs`, `hours`; shares of jobs by duration and size;
        `load`, the accelerator-time asked for over that of the cluster between the first and the last submission, in
        all and by size class; `load_by_hour`, of the 24 hours of a day; `findings`, sentences on contradictions.
    """
    span = float(jobs.submit[-1] - jobs.submit[0])
    capacity = _capacity(jobs, cluster)
    classes = size_class(jobs.gpus)
    hour = (jobs.submit // 3600 % 24).astype(int)
    hours = np.bincount(hour, jobs.service, 24) / capacity * 24
    return {
        "fingerprint": fingerprint(jobs),
        "jobs": len(jobs.id),
        "hours": span / 3600,
        "mean_duration_s": float(jobs.duration.mean()),
        "share_below_30_min": float((jobs.duration < 1800).mean()),
        "share_above_12_h": float((jobs.duration > 43200).mean()),
        "share_of_4_or_more": float((jobs.gpus >= 4).mean()),
        "load": offered_load(jobs, cluster),
        "load_by_size": {
            str(name): float(jobs.service[classes == name].sum() / capacity) for name in np.unique(classes)
        },
        "load_by_hour": hours.tolist(),
        "findings": _findings(jobs, cluster),
    }


def _capacity(jobs: Jobs, cluster: Cluster) -> float:
    return cluster.accelerators * max(float(jobs.submit[-1] - jobs.submit[0]), 1.0)


def offered_load(jobs: Jobs, cluster: Cluster) -> float:
    """Accelerator-seconds asked for, over those of the cluster between the first and the last submission."""
    return float(jobs.service.sum() / _capacity(jobs, cluster))


def at_load(jobs: Jobs, cluster: Cluster, load: float) -> Jobs:
    """The same jobs, submitted faster or slower, so that they offer this load; time until a deadline stays."""
    first = jobs.submit[0]
    submit = first + (jobs.submit - first) * (offered_load(jobs, cluster) / load)
    return replace(jobs, submit=submit, deadline=jobs.deadline - jobs.submit + submit)


def fingerprint(jobs: Jobs) -> str:
    """The first 16 digits of a hash of what decides a run."""
    columns = (jobs.submit.round(3), jobs.gpus, jobs.duration.round(3))
    return hashlib.sha256(b"".join(np.ascontiguousarray(c).tobytes() for c in columns)).hexdigest()[:16]


def _findings(jobs: Jobs, cluster: Cluster) -> list[str]:
    found = []
    if late := int((jobs.deadline < jobs.submit + jobs.duration).sum()):
        found.append(f"{late} jobs cannot meet their deadline even if they start at once")
    if large := int((jobs.gpus > cluster.largest()).sum()):
        found.append(f"{large} jobs ask for more accelerators than the cluster has of one type")
    same = np.unique(np.stack([jobs.submit, jobs.gpus, jobs.duration]), axis=1).shape[1]
    if len(jobs.id) - same:
        found.append(f"{len(jobs.id) - same} jobs equal another in submission, accelerators and duration")
    if len(jobs.id) > 10 and np.unique(jobs.submit % 60).size == 1:
        found.append("submissions are rounded to minutes, so many fall on one instant")
    return found

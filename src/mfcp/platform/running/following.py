"""What follows an attempt: another one on another cluster, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from mfcp.executors.base import Status
from mfcp.platform.running.job_settings import JobSettings

MOST = 20  # attempts of a task, those lost before they began included


def next_cluster(
    row: Mapping[str, Any],
    status: Status,
    before: Sequence[Mapping[str, Any]],
    settings: JobSettings,
    clusters: Iterable[str],
    away: Collection[str],
    busy: Mapping[str, float],
) -> str | None:
    """Where a task runs next, None where it does not: the cluster that was tried least, then the least busy.

    A task that is not done is tried again as the settings want it. One that is done may run once more elsewhere, so
    that releases can be compared on it; if that run fails, it is not tried again.

    Args:
        row: the attempt that is over.
        status: how it ended.
        before: all attempts of its task, this one among them.
        settings: of retries and comparisons.
        clusters: that there are.
        away: those that take no tasks now; they come last.
        busy: cluster → seconds of work that it has.
    """
    if row["cancelled"] or len(before) >= MOST:
        return None
    others = [one for one in before if one["id"] != row["id"]]
    done = {one["cluster_id"] for one in others if one["status"] == "succeeded"}
    told = not was_lost_unbegun({**row, "status": status})
    if status == "succeeded":
        wanted = not done and is_compared(row["task_id"], settings.compare)
        done.add(row["cluster_id"])
    elif done:
        wanted = not told
    else:
        tried = told + sum(not was_lost_unbegun(one) for one in others)
        wanted = status in settings.retry.after and tried <= settings.retry.times
    if not wanted:
        return None
    count = Counter(one["cluster_id"] for one in before)
    left = [name for name in clusters if name not in done and not (done and name in away)]
    return min(left, key=lambda name: (name in away, count[name], busy.get(name, 0.0), name), default=None)


def was_lost_unbegun(row: Mapping[str, Any]) -> bool:
    """Whether an attempt was lost before it began, so that it has told nothing of its task."""
    return row["status"] == "lost" and row["begun_at"] is None


def is_compared(task_id: str, share: float) -> bool:
    """Whether a task is of the share of those that run on two clusters; always the same answer for its name."""
    drawn = int.from_bytes(blake2b(task_id.encode(), digest_size=8).digest(), "big")
    return drawn < share * 2**64

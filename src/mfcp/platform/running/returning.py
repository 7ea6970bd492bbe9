"""Runs that are over, as deliveries of the platform's inbox in the log schema."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import CLUSTERS, RUNS
from mfcp.data.log.tables import write_tables
from mfcp.executors.spool import number_of
from mfcp.executors.supervise import key_of
from mfcp.files import replacing_folder
from mfcp.platform.running.job_settings import ClusterSettings
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store

REPORTED = ("step_time_s", "samples_per_s", "batch_size", "epoch", "peak_memory_bytes")
"""Columns of table runs that a task may write to the file that MFCP_REPORT names, as a JSON object."""


def deliver_runs(home: Path, store: Store, clusters: Mapping[str, ClusterSettings]) -> int:
    """Write the runs that are over to the inbox; how many. One delivery may be written twice, with the same content."""
    attempts = Attempts(store)
    number, rows = attempts.undelivered()
    if not rows:
        return 0
    before = attempts.of({row["task_id"] for row in rows})
    tables = store.tables(sorted({row["task_id"] for row in rows}))
    tables["runs"] = runs_of(rows, before)
    figures = [{"cluster_id": name, **own.figures} for name, own in clusters.items() if own.figures]
    if figures:
        names = [column.name for column in CLUSTERS.columns]
        tables["clusters"] = coerce(CLUSTERS, pd.DataFrame(figures, columns=names, dtype=object)).frame
    with replacing_folder(home / "inbox" / f"runs-{attempts.identity()}-{number:06d}") as folder:
        write_tables({name: table for name, table in tables.items() if len(table)}, folder)
    attempts.deliver(number)
    return len(rows)


def runs_of(rows: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Attempts as rows of table runs.

    Args:
        rows: those that are over.
        before: all attempts of their tasks, by which tries on a cluster are counted.
    """
    tries: Counter[tuple[str, str]] = Counter()
    attempt = {}
    for row in before:
        tries[row["task_id"], row["cluster_id"]] += 1
        attempt[row["id"]] = tries[row["task_id"], row["cluster_id"]]
    told = [
        {
            "run_id": key_of(row["batch"], row["place"]),
            "task_id": row["task_id"],
            "cluster_id": row["cluster_id"],
            "attempt": attempt[row["id"]],
            "duration_s": (row["receipt"] or {}).get("wall_s"),
            "status": row["status"],
            "started_at": datetime.fromtimestamp(row["begun_at"], UTC).isoformat(),
            "error": row["why"] or None,
            **_told(row),
        }
        for row in rows
    ]
    frame = pd.DataFrame(told, columns=[column.name for column in RUNS.columns], dtype=object)
    return coerce(RUNS, frame).frame


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the task said of itself, where it is what the log schema takes, and what its supervisor saw it hold.

    The memory of a task with GPUs is theirs, which no supervisor sees.
    """
    end = (row["receipt"] or {}).get("end") or {}
    told = end.get("report")
    seen = {} if row["limits"].get("gpus") else {"peak_memory_bytes": end.get("peak_bytes")}
    told = {**seen, **(told if isinstance(told, Mapping) else {})}
    found: dict[str, Any] = {}
    for name in REPORTED:
        column, value = RUNS[name], number_of(told.get(name))
        if value is None:
            continue
        low, high = column.low or 0.0, column.high or math.inf
        if value > high or value < low or (column.above and value == low):
            continue
        found[name] = int(value) if column.kind == "integer" else float(value)
    return found

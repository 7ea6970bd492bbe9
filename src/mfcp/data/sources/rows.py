"""Runs as other tools tell them, row by row, into tables of the log schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.errors import DataError

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables


def moment(text: str, zone: tzinfo) -> datetime | None:
    """Seconds since the epoch, or a time in ISO 8601 that is of a zone where it names none; None for anything else."""
    try:
        seconds = float(text)
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        pass
    try:
        told = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (told if told.tzinfo else told.replace(tzinfo=zone)).astimezone(UTC)


def log_of(
    path: Path,
    runs: Iterable[Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
    clusters: Mapping[str, Mapping[str, Any]] | None = None,
) -> Tables:
    """Tables of these runs: attempts counted in order of their start, and what is not known of a task left empty.

    Args:
        path: file, for messages.
        runs: columns of table runs.
        tasks, clusters: columns of these, by id; others get a row with their id alone.

    Raises:
        DataError: no run, or one twice.
    """
    import pandas as pd

    from mfcp.data.log.coercion import coerce
    from mfcp.data.log.schema import CLUSTERS, RUNS, TASKS

    rows = sorted((dict(row) for row in runs), key=lambda row: str(row.get("started_at") or ""))
    if not rows:
        raise DataError(f"{path}: no run in it")
    twice = [name for name, count in Counter(row["run_id"] for row in rows).items() if count > 1]
    if twice:
        raise DataError(f"{path}: run '{twice[0]}' occurs {Counter(row['run_id'] for row in rows)[twice[0]]} times")
    tries = Counter[tuple[str, str]]()
    for row in rows:
        tries[pair := (row["task_id"], row["cluster_id"])] += 1
        row["attempt"] = tries[pair]
    told: dict[str, list[dict[str, Any]]] = {"runs": rows}
    for name, known in (("task", tasks or {}), ("cluster", clusters or {})):
        ids = dict.fromkeys(str(row[f"{name}_id"]) for row in rows)
        told[f"{name}s"] = [{f"{name}_id": own, **known.get(own, {})} for own in ids]
    return {
        table.name: coerce(
            table, pd.DataFrame(told[table.name], columns=[column.name for column in table.columns], dtype=object)
        ).frame
        for table in (TASKS, CLUSTERS, RUNS)
    }

"""A trace file as jobs: any table with submission, duration and accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats
from mfcp.data.log.formats import READERS
from mfcp.errors import DataError
from mfcp.simulator.jobs import Jobs

NAMES: dict[str, tuple[str, ...]] = {
    "job": ("job", "job_id", "id"),
    "submit": ("submit_time_s", "submit_s", "submit", "submission", "submitted"),
    "duration": ("duration_s", "duration", "run_time_s", "runtime"),
    "gpus": ("num_gpus", "gpus", "accelerators", "gpu_count"),
    "user": ("user", "virtual_cluster", "group", "queue"),
    "deadline": ("deadline_s", "deadline"),
    "overhead": ("overhead_s", "overhead"),
    "success": ("success", "reliability"),
    "kind": ("model", "job_type", "kind"),
}
"""What a column may be called. The first three after `job` must be there."""
NEEDED = ("submit", "duration", "gpus")


@dataclass(frozen=True)
class Trace:
    """Jobs of a file.

    Attributes:
        jobs: in order of submission.
        row: (n,) line of each in the file, from 1, the header not counted.
        notes: what was changed or missed, a sentence each.
        left_out: rows that were left out: `row`, `column`, `value`, `expected`.
    """

    jobs: Jobs
    row: np.ndarray
    notes: tuple[str, ...]
    left_out: pd.DataFrame


def read_trace(path: Path, *, leave_out: bool = False, most: int | None = None) -> Trace:
    """Read a trace from Parquet, CSV or JSON Lines.

    Args:
        path: the file.
        leave_out: leave bad rows out, instead of an error at the first.
        most: accelerators that the cluster has; a job that asks for more is a bad row. None: not checked.

    Raises:
        DataError: no such file, a column that is missing, or a bad row: the message names row, column and value.
    """
    if path.suffix not in READERS or not path.is_file():
        raise DataError(f"{path}: expected a file that ends in {', '.join(READERS)}")
    frame = READERS[path.suffix](path)
    found = {name: next((c for c in names if c in frame.columns), None) for name, names in NAMES.items()}
    for name in NEEDED:
        if found[name] is None:
            raise DataError(
                f"{path}: no column for {name}; expected one of {', '.join(NAMES[name])}, "
                f"got {', '.join(map(str, frame.columns))}"
            )
    if frame.empty:
        raise DataError(f"{path}: no rows")
    columns, wrong = _columns(frame, found, most)
    bad = np.logical_or.reduce([mask for _, mask, _ in wrong]) if wrong else np.zeros(len(frame), bool)
    rows: list[dict[str, Any]] = [
        {"row": int(row) + 1, "column": found[name], "value": str(frame[found[name]].iloc[row]), "expected": expected}
        for name, mask, expected in wrong
        for row in (np.flatnonzero(mask) if leave_out else np.flatnonzero(mask)[:1])
    ]
    if rows and not leave_out:
        first = min(rows, key=lambda each: each["row"])
        raise DataError(
            f"{path}: row {first['row']}: {first['column']} is {first['value']!r}, expected {first['expected']}; "
            f"{int(bad.sum())} of {len(frame)} rows are bad: mend them, or leave them out (--leave-out)"
        )
    if bad.all():
        raise DataError(f"{path}: all {len(frame)} rows are bad; the first: {rows[0]}")
    kept = np.flatnonzero(~bad)
    order = kept[np.argsort(columns["submit"][kept], kind="stable")]
    notes = [f"{len(rows)} bad cells: {int(bad.sum())} of {len(frame)} rows are left out"] if bad.any() else []
    if (np.diff(columns["submit"][kept]) < 0).any():
        notes.append("rows were not in the order of submission and have been sorted")
    made = _jobs(columns, order)
    _check_names(path, made, order)
    left_out = pd.DataFrame(rows, columns=["row", "column", "value", "expected"])
    return Trace(made, order + 1, tuple(notes), left_out)


def _columns(
    frame: pd.DataFrame, found: dict[str, str | None], most: int | None
) -> tuple[dict[str, np.ndarray], list[tuple[str, Bools, str]]]:
    """Columns as numbers, and for each demand the rows that do not meet it."""
    columns: dict[str, np.ndarray] = {}
    wrong: list[tuple[str, Bools, str]] = []

    def number(name: str, demand: str, good: object, missing: float | None = None) -> None:
        raw = frame[found[name]]
        values: Floats = pd.to_numeric(raw, errors="coerce").to_numpy(float, na_value=np.nan)
        absent = raw.isna().to_numpy()
        if missing is not None:
            values = np.where(absent, missing, values)
        with np.errstate(invalid="ignore"):
            mask = ~good(values)  # type: ignore[operator]
        if mask.any():
            wrong.append((name, mask, demand))
        columns[name] = values

    number("submit", "seconds, 0 or more", lambda v: np.isfinite(v) & (v >= 0))
    number("duration", "seconds above 0", lambda v: np.isfinite(v) & (v > 0))
    limit = np.inf if most is None else most
    number(
        "gpus",
        "a whole number of at least 1" + ("" if most is None else f" and at most {most}, which the cluster has"),
        lambda v: (v >= 1) & (v <= limit) & (v == np.round(v)),
    )
    if found["deadline"]:
        number("deadline", "seconds, or nothing", lambda v: ~np.isnan(v), np.inf)
    if found["overhead"]:
        number("overhead", "seconds, 0 or more", lambda v: np.isfinite(v) & (v >= 0), 0.0)
    if found["success"]:
        number("success", "a probability above 0", lambda v: (v > 0) & (v <= 1), 1.0)
    for name in ("job", "user", "kind"):
        if found[name]:
            columns[name] = frame[found[name]].astype("str").fillna("").to_numpy(str)
    return columns, wrong


def _jobs(columns: dict[str, np.ndarray], order: np.ndarray) -> Jobs:
    own = {name: values[order] for name, values in columns.items()}
    first = own["submit"][0]
    n = len(order)
    deadline = {"deadline": own["deadline"] - first} if "deadline" in own else {}
    others = {name: own[name] for name in ("user", "kind", "overhead", "success") if name in own}
    names = own["job"] if "job" in own else (order + 1).astype(str)
    return Jobs(
        names, own["submit"] - first, own["gpus"].astype(np.int64), np.ones(n), own["duration"], **deadline, **others
    )


def _check_names(path: Path, jobs: Jobs, order: np.ndarray) -> None:
    names, count = np.unique(jobs.id, return_counts=True)
    for k in np.flatnonzero(count > 1)[:1]:
        rows = np.sort(order[jobs.id == names[k]])[:2] + 1
        raise DataError(
            f"{path}: rows {rows[0]} and {rows[1]} have the same job '{names[k]}'; give every job a name of its own"
        )

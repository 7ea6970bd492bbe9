"""A trace file as jobs: any table with submission, duration and accelerators, public ones as they are published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.border.regular import printable, refusing
from mfcp.border.tables import other_mark, plain_name
from mfcp.errors import DataError, SettingsError
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.traces.files import read_table
from mfcp.simulator.traces.published import one_row_a_job

NAMES: dict[str, tuple[str, ...]] = {
    "job": ("job", "job_id", "jobid", "id", "name", "job_name", "pod", "instance_sn"),
    "task": ("task", "task_id"),
    "submit": ("submit", "submit_time", "submission", "submission_time", "submitted", "submitted_time",
               "creation_time"),
    "duration": ("duration", "run_time", "runtime", "elapsed", "elapsedraw"),
    "start": ("start", "start_time", "scheduled_time"),
    "end": ("end", "end_time", "deletion_time"),
    "gpus": ("gpus", "num_gpus", "num_gpu", "gpu_num", "gpu_count", "gpu_request", "accelerators"),
    "workers": ("worker_num",),
    "milli": ("gpu_milli",),
    "cpu": ("cpu_milli",),
    "memory": ("memory_mib",),
    "models": ("gpu_models", "gpu_spec"),
    "iterations": ("iterations", "num_iteration"),
    "user": ("user", "virtual_cluster", "vc", "organization", "app_name", "group", "queue"),
    "deadline": ("deadline",),
    "overhead": ("overhead",),
    "success": ("success", "reliability"),
    "kind": ("kind", "model", "model_name", "job_type", "type"),
    "loading": ("loading", "resource_0_time"),
    "computing": ("computing", "resource_1_time"),
    "sending": ("sending", "resource_2_time"),
}  # fmt: skip
"""Role of a column → what it may be called, in any case and with `_s` for seconds; the first that is there."""
STAGES = ("loading", "computing", "sending")  # seconds of an iteration; a trace has all three, or none
UNKNOWN = ("", "nan", "none", "null", "nat", "<na>", "unknown")
SPAN = r"^\s*(?:(?P<days>\d+)(?:-| days? ))?(?P<hours>\d+):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d(?:\.\d+)?)\s*$"
"""A duration as `1-02:03:04`, of which days may be left out; with two parts it could be hours or minutes."""
WHY = {
    "submit": "were there before the trace began", "gpus": "ask for no accelerators", "start": "never started",
    "end": "had not ended when the trace did", "duration": "ran for no time",
}  # fmt: skip
"""Jobs that a public trace has and that cannot be simulated: the column that says so, and what it says."""


@dataclass(frozen=True)
class Trace:
    """Jobs of a file.

    Attributes:
        jobs: in order of submission.
        task: (n,) name of each one's task, that of the job where the file has none.
        models: (n,) types of accelerators that each may run on, `|` between; empty for any.
        row: (n,) line of each in the file, from 1, the header not counted.
        notes: what was assumed, changed or missed, a sentence each.
        left_out: rows that were left out: `row`, `column`, `value`, `expected`.
    """

    jobs: Jobs
    task: Texts
    models: Texts
    row: Ints
    notes: tuple[str, ...]
    left_out: pd.DataFrame


def read_trace(
    path: Path, *, columns: Mapping[str, str] | None = None, leave_out: bool = False, most: int | None = None
) -> Trace:
    """Read a trace: Parquet, CSV, JSON Lines, an array of JSON objects or what `sacct -P` prints, also compressed.

    Submission, accelerators, and duration or end (and start) must be there. Times are seconds, or ISO 8601, which is
    in UTC without a zone. Jobs that ask for no accelerators, or of which the trace does not have the whole run, are
    left out, and a note counts them.

    Args:
        path: the file.
        columns: role → name in the file; the roles are those of `NAMES`, which holds the names that are known.
        leave_out: leave bad rows out, instead of an error at the first.
        most: accelerators that the cluster has; a job that asks for more is a bad row. None: not checked.

    Raises:
        DataError: no such file, columns that are missing, or a bad row: the message names row, column and value.
        SettingsError: `columns` names a role that there is not.
    """
    raw = read_table(path)
    if raw.empty:
        raise DataError(f"{path}: no rows")
    with refusing(path, "a trace", "mend its cells, or name its columns with --columns"):
        return _of_table(raw, path, columns or {}, leave_out, most)


def _of_table(raw: pd.DataFrame, path: Path, columns: Mapping[str, str], leave_out: bool, most: int | None) -> Trace:
    frame, notes = one_row_a_job(raw, path)
    found = _find(frame, columns, path)
    cells = _Cells(frame, found, most)
    wrong, skipped = cells.wrong, cells.skipped
    bad, skip = wrong["row"].unique(), skipped["row"].unique()
    if len(bad) and not leave_out:
        first = wrong.sort_values("row", kind="stable").iloc[0]
        raise DataError(
            f"{path}: row {first['row']}: {first['column']} is {first['value']!r}, expected {first['expected']}; "
            f"{len(bad):,} of {len(frame):,} rows are bad: mend them, or leave them out (--leave-out)"
        )
    kept = np.setdiff1d(np.arange(len(frame)), np.union1d(bad, skip) - 1)
    counts = [f"{number:,} jobs {why}" for why, number in skipped["expected"].value_counts(sort=False).items()]
    if len(kept) == 0:
        why = "; ".join([*counts, *([f"{len(bad):,} rows are bad"] if len(bad) else [])])
        raise DataError(f"{path}: none of {len(frame):,} rows is left: {why}")
    notes += [f"{count}, and are left out" for count in counts]
    if len(bad):
        notes.append(f"{len(wrong):,} bad cells: {len(bad):,} of {len(frame):,} rows are left out")
    submit = cells.columns["submit"][kept]
    if (np.diff(submit) < 0).any():
        notes.append("rows were not in the order of submission and have been sorted")
    notes += cells.notes(kept)
    order = kept[np.argsort(submit, kind="stable")]
    made = _jobs(cells.columns, order)
    _check_names(path, made, order)
    left_out = pd.concat([wrong, skipped]).sort_values("row", kind="stable", ignore_index=True)
    task = cells.columns["task"][order] if "task" in cells.columns else made.id
    models = cells.columns["models"][order] if "models" in cells.columns else np.full(len(order), "")
    return Trace(made, task, models, order + 1, tuple(notes), left_out)


def _find(frame: pd.DataFrame, columns: Mapping[str, str], path: Path) -> dict[str, str]:
    """Role → column, for the roles that there are."""
    if mark := other_mark([str(name) for name in frame.columns]):
        remedy = "end its name with .psv" if mark == "|" else "save it with commas"
        raise DataError(f"{path}: cells are parted by {'bars' if mark == '|' else repr(mark)}; {remedy}")
    for role, column in columns.items():
        if role not in NAMES:
            raise SettingsError(f"--columns: no role '{role}'; known are {', '.join(NAMES)}")
        if column not in frame:
            raise DataError(f"{path}: no column '{column}' (for {role}); there are {_listed(frame)}")
    there = {plain_name(str(name)).removesuffix("_s"): str(name) for name in reversed(list(frame))}
    there = {key: name for key, name in there.items() if name not in columns.values()}
    found = {role: next((there[name] for name in names if name in there), None) for role, names in NAMES.items()}
    found |= dict(columns)
    missing = [role for role in ("submit", "gpus") if found[role] is None]
    if found["duration"] is None and found["end"] is None:
        missing.append("duration")
    if missing:
        if not any(c.isalpha() for name in frame.columns for c in str(name)):
            raise DataError(f"{path}: no names of columns in its first line: {_listed(frame)}; write them above it")
        wanted = "; ".join(f"{role} ({', '.join(NAMES[role])})" for role in missing)
        raise DataError(
            f"{path}: no column for {wanted}; there are {_listed(frame)}; name them as "
            f"--columns {','.join(f'{role}=…' for role in missing)}"
        )
    if 0 < len(stages := [role for role in STAGES if found[role] is not None]) < len(STAGES):
        raise DataError(
            f"{path}: of the stages of an iteration there are only {', '.join(stages)}; expected {', '.join(STAGES)}: "
            "name them with --columns"
        )
    if stages and found["iterations"] is None:
        raise DataError(
            f"{path}: {', '.join(STAGES)} are seconds of an iteration; expected a column iterations as well"
        )
    if found["duration"] == found["end"]:
        found["end"] = None
    return {role: column for role, column in found.items() if column is not None}


def _listed(frame: pd.DataFrame) -> str:
    names = [printable(name) for name in frame.columns]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} others" if len(names) > 20 else "")


@dataclass
class _Cells:
    """Columns as numbers, and the cells that do not meet a demand or leave a job out."""

    frame: pd.DataFrame
    found: dict[str, str]
    most: int | None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    wrong: pd.DataFrame = field(init=False)
    skipped: pd.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        self._bad: list[tuple[str, Bools, str]] = []
        self._out: list[tuple[str, Bools, str]] = []
        self._whole_run()
        self._gpus()
        self._others()
        self.skipped = self._rows(self._out).drop_duplicates("row")
        bad = self._rows(self._bad)
        self.wrong = bad[~bad["row"].isin(self.skipped["row"])]

    def notes(self, kept: Ints) -> list[str]:
        """Of what was assumed for the jobs that are kept."""
        told = []
        if "duration" not in self.found and "start" not in self.found:
            told.append("no column of starts: durations are from submission to end")
        if parts := int((self.columns["milli"][kept] < 1000).sum()):
            told.append(f"{parts:,} jobs ask for a part of an accelerator; they get a whole one but with a placement "
                        "that knows parts (--placement)")  # fmt: skip
        return told

    def _whole_run(self) -> None:
        """Submission and duration; a run that the trace does not have whole leaves its job out."""
        run = "duration" if "duration" in self.found else "end"
        if run == "duration":
            duration = self._durations()
            if "start" in self.found or "end" in self.found:
                self._leave("duration", self._unknown("duration"), "have no duration")
        else:
            for role in ("submit", "start", "end"):
                if role in self.found:
                    self._leave(role, self._unknown(role))
            duration = self._times("end") - self._times("start" if "start" in self.found else "submit")
        self._leave(run, duration == 0, WHY["duration"])
        self._demand(
            run,
            "seconds above 0, or a span such as 1-02:03:04" if run == "duration" else "a time after the start",
            duration > 0,
        )
        self._demand(run, "seconds that are finite", ~np.isinf(duration))
        submit = self._times("submit")
        self._demand("submit", "seconds, 0 or more, or a time such as 2020-06-09 18:41:01", submit >= 0)
        self._demand("submit", "seconds that are finite", ~np.isinf(submit))
        self.columns |= {"submit": submit, "duration": duration}

    def _gpus(self) -> None:
        gpus, demand = self._numbers("gpus"), "a whole number of at least 1"
        if "workers" in self.found:
            gpus = gpus * self._numbers("workers")
        milli = self._numbers("milli") if "milli" in self.found else np.full(len(gpus), 1000.0)
        part = (gpus > 0) & (gpus < 1)
        milli = np.where(part, np.ceil(gpus * 1000), np.where(milli > 0, np.minimum(milli, 1000), 1000))
        gpus = np.where(part, 1.0, gpus)
        if self.most is not None:
            demand += f" and at most {self.most}, which the cluster has"
        limit = np.inf if self.most is None else self.most
        self._leave("gpus", gpus == 0)
        self._demand("gpus", demand, (gpus >= 1) & (gpus <= limit) & (gpus == np.round(gpus)))
        self.columns |= {"gpus": gpus, "milli": milli}

    def _others(self) -> None:
        if "deadline" in self.found:
            deadline = np.where(self._unknown("deadline"), np.inf, self._times("deadline"))
            self._demand("deadline", "seconds, a time, or nothing", ~np.isnan(deadline))
            self.columns["deadline"] = deadline
        for role, demand, missing in (
            ("overhead", "seconds, 0 or more", 0.0), ("success", "a probability above 0", 1.0),
            ("iterations", "a number above 0", np.nan), ("cpu", "thousandths of a core, 0 or more", 0.0),
            ("memory", "MiB, 0 or more", 0.0),
        ):  # fmt: skip
            if role not in self.found:
                continue
            values = np.where(self._unknown(role), missing, self._numbers(role))
            low = values >= 0 if role in ("overhead", "cpu", "memory") else values > 0
            self._demand(role, demand, np.isfinite(values) & low & ((values <= 1) | (role != "success")))
            self.columns[role] = values
        if STAGES[0] in self.found:
            self._stages()
        for role in ("job", "task", "user", "kind", "models"):
            if role in self.found:
                self.columns[role] = self.frame[self.found[role]].astype("str").fillna("").to_numpy(str)

    def _stages(self) -> None:
        stages = np.column_stack([self._numbers(role) for role in STAGES])
        step = self.columns["duration"] / self.columns["iterations"]
        demand = "seconds, at least 0 and below ten times duration / iterations"  # stages overlap; tells milliseconds
        for role, own in zip(STAGES, stages.T, strict=True):
            self._demand(role, demand, (own >= 0) & (own < 10 * step))
        self._demand("computing", "seconds above 0 in one of the three stages", ~(stages.sum(axis=1) <= 0))
        self.columns["stages"] = stages

    def _unknown(self, role: str) -> Bools:
        raw = self.frame[self.found[role]]
        if pd.api.types.is_numeric_dtype(raw) or pd.api.types.is_datetime64_any_dtype(raw):
            return raw.isna().to_numpy(bool)
        words: Bools = raw.astype("str").fillna("").str.strip().str.lower().isin(UNKNOWN).to_numpy(bool)
        return words | raw.isna().to_numpy(bool)

    def _numbers(self, role: str) -> Floats:
        raw = pd.to_numeric(self.frame[self.found[role]], errors="coerce")
        values: Floats = raw.to_numpy(float, na_value=np.nan).copy()
        return values

    def _durations(self) -> Floats:
        """Seconds, also of spans that are written out."""
        raw = self.frame[self.found["duration"]]
        if pd.api.types.is_timedelta64_dtype(raw):
            return np.asarray(raw.dt.total_seconds(), float)
        seconds = self._numbers("duration")
        written = np.isnan(seconds) & ~self._unknown("duration")
        if written.any():
            spans = raw[written].astype("str").str.extract(SPAN).astype(float).fillna({"days": 0.0})
            seconds[written] = spans.to_numpy() @ (86400.0, 3600.0, 60.0, 1.0)
        return seconds

    def _times(self, role: str) -> Floats:
        """Seconds, or seconds since 1970 of times; a column is of one or the other."""
        raw = self.frame[self.found[role]]
        if pd.api.types.is_numeric_dtype(raw):
            return self._numbers(role)
        seconds = self._numbers(role) if not pd.api.types.is_datetime64_any_dtype(raw) else np.full(len(raw), np.nan)
        known = ~self._unknown(role)
        written = np.isnan(seconds) & known
        if written.sum() * 2 > known.sum():
            stamps = pd.to_datetime(raw, errors="coerce", utc=True, format="ISO8601")
            since = stamps.dt.as_unit("us").astype("int64").to_numpy() / 1e6
            since = np.where(stamps.notna(), since, np.nan)
            seconds = np.where(written, since, np.nan)
        return seconds

    def _demand(self, role: str, expected: str, good: Any) -> None:
        if not np.all(good):
            self._bad.append((role, ~np.asarray(good), expected))

    def _leave(self, role: str, rows: Bools, why: str | None = None) -> None:
        if rows.any():
            self._out.append((role, rows, why or WHY[role]))

    def _rows(self, cells: list[tuple[str, Bools, str]]) -> pd.DataFrame:
        parts = [pd.DataFrame({"row": [], "column": [], "value": [], "expected": []}).astype({"row": np.int64})]
        for role, mask, expected in cells:
            values = self.frame[self.found[role]][mask].astype("str").fillna("").to_numpy()
            own = {"row": np.flatnonzero(mask) + 1, "column": self.found[role], "value": values, "expected": expected}
            parts.append(pd.DataFrame(own))
        return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def _jobs(columns: dict[str, np.ndarray], order: np.ndarray) -> Jobs:
    own = {name: values[order] for name, values in columns.items()}
    first = own["submit"][0]
    iterations = own.get("iterations", np.ones(len(order)))
    deadline = {"deadline": own["deadline"] - first} if "deadline" in own else {}
    others = {name: own[name] for name in ("user", "kind", "overhead", "success", "stages") if name in own}
    names = own["job"] if "job" in own else (order + 1).astype(str)
    whole = {name: own[name].astype(np.int64) for name in ("gpus", "milli", "cpu", "memory") if name in own}
    gpus, step = whole.pop("gpus"), own["duration"] / iterations
    return Jobs(names, own["submit"] - first, gpus, iterations, step, **deadline, **others, **whole)


def _check_names(path: Path, jobs: Jobs, order: np.ndarray) -> None:
    names, first, count = np.unique(jobs.id, return_index=True, return_counts=True)
    if (count == 1).all():
        return
    k = int(np.flatnonzero(count > 1)[first[count > 1].argmin()])
    rows = np.sort(order[jobs.id == names[k]])[:2] + 1
    raise DataError(
        f"{path}: rows {rows[0]} and {rows[1]} have the same job '{names[k]}'; give every job a name of its own"
    )

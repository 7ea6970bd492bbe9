"""Traces whose publishers spread a job over several rows or levels: one row a job, in the names of `reading`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.errors import DataError
from mfcp.simulator.traces.files import read_table

Single = tuple[pd.DataFrame, list[str]]
SACCT = "sacct -X -P -o JobID,JobName,User,Submit,Start,End,AllocTRES,ReqTRES"


def one_row_a_job(frame: pd.DataFrame, path: Path) -> Single:
    """The frame as it is, or put together where it has the columns of a known trace; and what was assumed."""
    for columns, single in KNOWN.items():
        if set(columns) <= set(frame.columns):
            return single(frame, path)
    return frame, []


def _philly(frame: pd.DataFrame, path: Path) -> Single:
    """Philly (Jeon et al., USENIX ATC 2019): the run time of a job is that of all its attempts.

    An attempt without an end leaves the job without a duration, and a job without attempts ran on nothing.
    """
    rows = [_philly_job(number, attempts, path) for number, attempts in enumerate(frame["attempts"].tolist(), start=1)]
    own = pd.DataFrame(rows, columns=["duration", "end", "gpus", "attempts"])
    own["job"], own["submit"] = frame["jobid"].to_numpy(), frame["submitted_time"].to_numpy()
    if "vc" in frame:
        own["user"] = frame["vc"].to_numpy()
    several = int((own.pop("attempts") > 1).sum())
    notes = [f"{several:,} jobs had several attempts; their durations are the sums of these"] if several else []
    return own, notes


def _philly_job(number: int, attempts: Any, path: Path) -> tuple[float, pd.Timestamp | None, int, int]:
    try:
        spans = [(_stamp(each["start_time"]), _stamp(each["end_time"])) for each in attempts]
        gpus = max((sum(len(node["gpus"]) for node in each["detail"]) for each in attempts), default=0)
    except (TypeError, KeyError) as error:
        raise DataError(
            f"{path}: job {number}: an attempt needs start_time, end_time and detail, a list of nodes with gpus "
            f"({type(error).__name__}: {error})"
        ) from None
    seconds = sum((end - start).total_seconds() for start, end in spans)  # NaN if one is not known
    return seconds, spans[-1][1] if spans else None, gpus, len(spans)


def _stamp(text: Any) -> pd.Timestamp:
    stamp: pd.Timestamp = pd.to_datetime(text, errors="coerce", utc=True)
    return stamp


def _pai(frame: pd.DataFrame, path: Path) -> Single:
    """Alibaba 2020 (Weng et al., NSDI 2022): tasks of a job run side by side, each in several instances."""
    number = {
        name: pd.to_numeric(frame[name], errors="coerce") for name in ("inst_num", "plan_gpu", "start_time", "end_time")
    }
    parts = pd.DataFrame({
        "job": frame["job_name"], "start": number["start_time"], "end": number["end_time"],
        "gpus": number["inst_num"].fillna(1) * number["plan_gpu"].fillna(0) / 100,
        "ended": number["end_time"].notna(),
    })  # fmt: skip
    group = parts.groupby("job", sort=False)
    own = group.agg(start=("start", "min"), end=("end", "max"), asked=("gpus", "sum"), ended=("ended", "all"))
    own = own.reset_index()
    own["end"] = own["end"].where(own["ended"])
    own["gpus"] = np.ceil(own["asked"] - 1e-9)
    notes = [f"{len(frame):,} tasks are {len(own):,} jobs; the tasks of a job run together"]
    part = int((own["gpus"] > own["asked"] + 1e-9).sum())
    if part:
        notes.append(f"{part:,} jobs ask for parts of accelerators in sum, and get the next whole number")
    submitted = _pai_submissions(path)
    if submitted is None:
        own["submit"] = own["start"]
        notes.append("submissions are in pai_job_table, which does not lie beside it; starts stand in for them")
    else:
        own["submit"] = own["job"].map(submitted)
    return own.drop(columns=["asked", "ended"]), notes


def _pai_submissions(path: Path) -> pd.Series[Any] | None:
    for name in ("pai_job_table.csv", "pai_job_table.csv.gz", "pai_job_table.tar.gz"):
        if (beside := path.parent / name).is_file():
            jobs = read_table(beside).drop_duplicates("job_name").set_index("job_name")
            return pd.to_numeric(jobs["start_time"], errors="coerce")
    return None


def _slurm(frame: pd.DataFrame, path: Path) -> Single:
    """`sacct -P`: a job occupies what it was given from start to end, however it ended; its steps are no jobs."""
    if not {"AllocTRES", "ReqTRES"} & set(frame.columns):
        raise DataError(f"{path}: no column AllocTRES or ReqTRES, which tell accelerators; print the jobs with {SACCT}")
    jobs = frame[~frame["JobID"].str.contains(".", regex=False, na=False)]
    if jobs.empty:
        raise DataError(f"{path}: all {len(frame):,} rows are steps of jobs; print the jobs with {SACCT}")
    given, asked = (jobs.get(name, pd.Series("", index=jobs.index)).fillna("") for name in ("AllocTRES", "ReqTRES"))
    resources = given.where(given != "", asked)
    alike = resources.str.extract(r"(?:^|,)gres/gpu=(\d+)(?:,|$)")[0].astype(float)
    typed = resources.str.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)").map(lambda counts: sum(map(int, counts)))
    own = pd.DataFrame({"job": jobs["JobID"], "gpus": alike.fillna(typed)})
    for role, name in (("submit", "Submit"), ("start", "Start"), ("end", "End"), ("user", "User"), ("kind", "JobName")):
        if name in jobs:
            own[role] = jobs[name]
    steps = len(frame) - len(jobs)
    notes = [f"{steps:,} rows are steps of jobs, and not counted as rows; sacct -X prints none"] if steps else []
    return own.reset_index(drop=True), notes


KNOWN: dict[tuple[str, ...], Callable[[pd.DataFrame, Path], Single]] = {
    ("jobid", "attempts", "submitted_time"): _philly,
    ("job_name", "task_name", "inst_num", "plan_gpu", "start_time", "end_time"): _pai,
    ("JobID", "Submit", "Start", "End"): _slurm,
}
"""Columns that tell a trace → how to read it."""

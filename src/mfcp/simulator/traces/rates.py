"""How fast the jobs of a trace run, from a file: on types of accelerators, or on numbers of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.simulator.batches import Batches
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.pairs import JobPairs
from mfcp.simulator.traces.files import numbers, read_table
from mfcp.simulator.traces.measured_ways import MeasuredWays

NAMED = {"job": ("job", "job_id", "id"), "kind": ("model", "kind", "job_type", "model_name")}
"""Whom a row is about: one job, or all jobs of a model."""


def read_speeds(path: Path, jobs: Jobs, cluster: Cluster) -> Floats:
    """(n, K) speed of each job on each type of accelerator, from a table with `job` or `model`, `type` and `speed`.

    A job's duration in the trace is at speed 1. Speed 0, or no row for a type, means that the job does not run there.

    Raises:
        DataError: a column that is missing, a cell that is wrong, two rows for one pair, or a job without any row.
    """
    frame, _, names, row, job_row = read_named(path, jobs, ("type", "speed"))
    kind = _types(path, frame, cluster)
    speed = numbers(path, frame, "speed")
    table = np.zeros((len(names), len(cluster.types)))
    _check_once(path, frame, np.stack([row, kind]))
    table[row, kind] = speed
    result = table[job_row]
    for job in np.flatnonzero((result <= 0).all(axis=1))[:1]:
        raise DataError(f"{path}: job {jobs.id[job]} runs on no type of the cluster ({', '.join(cluster.types)})")
    return result


def read_configurations(path: Path, jobs: Jobs, cluster: Cluster) -> MeasuredWays:
    """Ways to run, from a table with `job` or `model`, `gpus`, and `speed` or `iterations_per_s`.

    `type` must be there if the cluster has several; `watts` and `batch_size` may. Speed 1 is that of the job's duration
    in the trace; iterations need the trace to tell how many a job does.

    Raises:
        DataError: as `read_speeds`; or iterations per second where the trace tells no iterations.
    """
    frame, by, names, row, job_row = read_named(path, jobs, ("gpus",))
    named = [name for name in ("speed", "iterations_per_s") if name in frame]
    if len(named) != 1:
        raise DataError(f"{path}: expected one of the columns speed and iterations_per_s, got {len(named)} of them")
    if len(cluster.types) > 1 and "type" not in frame:
        raise DataError(f"{path}: no column type, and the cluster has several ({', '.join(cluster.types)})")
    kind = _types(path, frame, cluster) if "type" in frame else np.zeros(len(frame), np.int64)
    gpus = numbers(path, frame, "gpus", least=1, below=2**31, whole=True).astype(np.int64)
    if named == ["iterations_per_s"] and (jobs.iterations == 1).all():
        raise DataError(f"{path}: iterations_per_s, but the trace tells no iterations; give it a column iterations")
    rate = numbers(path, frame, named[0])
    watts = numbers(path, frame, "watts") if "watts" in frame else np.zeros(len(frame))
    batch = np.ones(len(frame))
    if "batch_size" in frame:
        batch = numbers(path, frame, "batch_size", least=1, below=1e12)
    _check_once(path, frame, np.stack([row, kind, gpus]))
    runs = np.isin(np.arange(len(names)), row[rate > 0])
    for job in np.flatnonzero(~runs[job_row])[:1]:
        raise DataError(f"{path}: job {jobs.id[job]} has no way to run with a speed above 0")
    return MeasuredWays(by, named[0], names, job_row, row, kind, gpus, rate, watts, batch, np.zeros(len(frame), bool))


def read_batches(path: Path, jobs: Jobs) -> Batches:
    """Batch sizes that jobs want: `job` or `model`, `first_epoch`, `batch_size`, `samples_per_epoch`, `steps_per_s`.

    A row is a phase, from an epoch on; the first one of a job is at 0, with the batch that its iterations are of.
    `ahead` may say how many epochs ahead a job looks. Jobs that have no row keep their batch.

    Raises:
        DataError: a column that is missing, a cell that is wrong, or phases that make no sense.
    """
    frame, by, column = _named(path, ("first_epoch", "batch_size", "samples_per_epoch", "steps_per_s"))
    whole = {"first_epoch": 0, "batch_size": 1, "samples_per_epoch": 1} | ({"ahead": 0} if "ahead" in frame else {})
    columns = {name: numbers(path, frame, name, least=least, below=1e12, whole=True) for name, least in whole.items()}
    phases = pd.DataFrame({"ahead": np.zeros(len(frame))} | columns).astype(np.int64)
    phases["rate"] = numbers(path, frame, "steps_per_s")
    phases["who"] = frame[column].astype("str").fillna("").to_numpy(str)
    _check_phases(path, phases)
    asked = pd.DataFrame({"job": np.arange(len(jobs.id)), "who": jobs.id if by == "job" else jobs.kind})
    own = asked.merge(phases, on="who").sort_values(["job", "first_epoch"], kind="stable")
    if not len(own):
        raise DataError(f"{path}: no row is about a job of the trace; the first is '{asked['who'].iloc[0]}'")
    names = ("job", "first_epoch", "batch_size", "rate", "samples_per_epoch", "ahead")
    return Batches(*(own[name].to_numpy() for name in names))


def read_pairs(path: Path, jobs: Jobs, cluster: Cluster) -> JobPairs:
    """Speeds of jobs that share accelerators: `model_a`, `model_b`, `type`, `speed_a`, `speed_b`.

    Speeds are in the unit of `read_speeds`; `type` may be missing if the cluster has one. A row is about both orders of
    submission, unless another row is about the other one. Models that no row names together cannot share.

    Raises:
        DataError: a column that is missing, a cell that is wrong, two rows for one pair, or no model of the trace.
    """
    kinds = len(cluster.types)
    frame = _rows(path, ["model_a", "model_b", "speed_a", "speed_b"] + (["type"] if kinds > 1 else []))
    on = _types(path, frame, cluster) if "type" in frame else np.zeros(len(frame), np.int64)
    models = [frame[name].astype("str").fillna("").to_numpy(str) for name in ("model_a", "model_b")]
    own, kind = np.unique(jobs.kind, return_inverse=True)
    if not np.isin(own, np.concatenate(models)).any():
        raise DataError(f"{path}: no row is about a model of the trace; the first is '{jobs.kind[0]}'")
    both = np.stack([numbers(path, frame, "speed_a"), numbers(path, frame, "speed_b")], axis=1)
    known, at = np.unique(np.concatenate([own, *models]), return_inverse=True)
    a, b = at[len(own) :].reshape(2, -1)
    _check_once(path, frame, np.stack([a, b, on]))
    table = np.zeros((len(known), len(known), kinds, 2))
    table[b, a, on] = both[:, ::-1]
    table[a, b, on] = both
    mine = at[: len(own)]
    return JobPairs(kind.astype(np.int64), table[np.ix_(mine, mine)])


def _check_phases(path: Path, phases: pd.DataFrame) -> None:
    first = phases.groupby("who", sort=False)["first_epoch"].transform("min")
    samples = phases.groupby("who", sort=False)["samples_per_epoch"].transform("first")
    wrong = {
        "the first phase of '{}' is not at epoch 0; add it, with the batch that its iterations are of": first != 0,
        "'{}' has two phases from the same epoch; keep one of them": phases.duplicated(["who", "first_epoch"]),
        "'{}' has epochs of different samples_per_epoch; make them equal": phases["samples_per_epoch"] != samples,
        "'{}' has steps_per_s 0; expected a number above 0": phases["rate"] <= 0,
    }
    for what, rows in wrong.items():
        for row in np.flatnonzero(rows)[:1]:
            raise DataError(f"{path}: row {row + 1}: {what.format(phases['who'].iloc[row])}")


class NamedRows(NamedTuple):
    """Rows, whether they are about `job` or `model`, about whom, (rows,) which of these each is, (n,) and each job."""

    frame: pd.DataFrame
    by: str
    names: Texts
    row: Ints
    job_row: Ints


def read_named(path: Path, jobs: Jobs, columns: Sequence[str]) -> NamedRows:
    """A table with rows about each job of a trace, or about its model.

    Raises:
        DataError: one of the columns is missing, there is no row, or none about a job.
    """
    frame, by, column = _named(path, columns)
    names = frame[column].astype("str").fillna("").to_numpy(str)
    known, row = np.unique(names, return_inverse=True)
    asked = jobs.id if by == "job" else jobs.kind
    job_row = np.searchsorted(known, asked).clip(max=len(known) - 1)
    if by == "kind" and not (asked != "").any():
        raise DataError(f"{path}: rows are about models, and the trace has no column model; name jobs by a column job")
    for job in np.flatnonzero(known[job_row] != asked)[:1]:
        raise DataError(f"{path}: no row whose {column} is '{asked[job]}', which job {jobs.id[job]} of the trace has")
    return NamedRows(frame, "job" if by == "job" else "model", known, row.astype(np.int64), job_row.astype(np.int64))


def _named(path: Path, columns: Sequence[str]) -> tuple[pd.DataFrame, str, str]:
    """The table, whom its rows are about, job or kind, and by which column; further columns must be there."""
    frame = _rows(path)
    found = next(((by, name) for by, names in NAMED.items() for name in names if name in frame), None)
    missing = ([] if found else ["job or model"]) + [name for name in columns if name not in frame]
    if missing or found is None:
        raise DataError(f"{path}: no column {', '.join(missing)}; there are {', '.join(map(str, frame.columns))}")
    return frame, *found


def _rows(path: Path, needs: Sequence[str] = ()) -> pd.DataFrame:
    """The table with the columns that are needed, which must say something."""
    frame = read_table(path, needs)
    if not len(frame):
        raise DataError(f"{path}: no rows; expected at least one below the names of the columns")
    return frame


def _types(path: Path, frame: pd.DataFrame, cluster: Cluster) -> Ints:
    names = frame["type"].astype("str").fillna("")
    for row in np.flatnonzero(~names.isin(cluster.types))[:1]:
        raise DataError(
            f"{path}: row {row + 1}: type is '{names.iloc[row]}', expected one of {', '.join(cluster.types)}"
        )
    return np.array([cluster.types.index(name) for name in names], np.int64)


def _check_once(path: Path, frame: pd.DataFrame, keys: np.ndarray) -> None:
    _, first, count = np.unique(keys, axis=1, return_index=True, return_counts=True)
    if (count > 1).any():
        raise DataError(f"{path}: row {first[count > 1].min() + 1} has a second one for the same; keep one of them")

"""Runs that have ended, or a few steps that were measured, against what a release had predicted of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.data.log.schema import SCHEMA, SUCCEEDED
from mfcp.data.pool.run_totals import floats
from mfcp.errors import DataError
from mfcp.predictors.residuals import ObservedCells, TaskPoints
from mfcp.release.evidence import STEP_NOISE, Evidence
from mfcp.release.known_tasks import KnownTasks
from mfcp.release.model import Release

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.log.tables import Tables


def read_evidence(release: Release, tables: Tables, path: Path) -> Evidence:
    """The runs of a file, or of a folder with the tasks that ran; tasks of the round need not be in it.

    Args:
        release: whose predictions they are compared with.
        tables: `tasks` of the round, and their graphs.
        path: table `runs`, or a folder with it and perhaps tasks, nodes and edges.

    Raises:
        DataError: no such table, a damaged one, two descriptions of a task, or as `evidence_of`.
    """
    import pandas as pd

    from mfcp.data.log.tables import check_rows, find_table, read_new_tasks, read_table
    from mfcp.data.log.zoo_tasks import with_zoo_models

    runs = find_table(path, "runs") if path.is_dir() else path
    if runs is None:
        raise DataError(f"{path}: no table 'runs' in it; expected runs.csv, runs.jsonl or runs.parquet")
    rows = check_rows(read_table(runs, SCHEMA["runs"], unnamed=True), str(runs), SCHEMA["runs"])
    if path.is_dir() and find_table(path, "tasks") is not None:
        other = with_zoo_models(read_new_tasks(path))
        more = other["tasks"][~other["tasks"]["task_id"].isin(tables["tasks"]["task_id"])]
        joined = {"tasks": pd.concat([tables["tasks"], more], ignore_index=True)}
        for name in ("nodes", "edges"):
            parts = [own[name] for own in (tables, other) if name in own]
            if len(parts) == 2:
                parts[1] = parts[1][~parts[1]["graph_id"].isin(parts[0]["graph_id"])]
            if parts:
                joined[name] = pd.concat(parts, ignore_index=True)
        tables = joined
    return evidence_of(release, tables, rows)


def evidence_of(release: Release, tables: Tables, runs: pd.DataFrame) -> Evidence:
    """Of runs that have ended, or of a few steps: succeeded ones that tell a time; the others are passed over.

    Seconds are `duration_s`, else the task's samples at `step_time_s` or `samples_per_s`. Which tasks these are,
    `tables` says, or the release's log. Several runs of one cell count as one, the surer the more.

    Args:
        release: whose predictions they are compared with.
        tables: `tasks` with all that is told of them, and `nodes` and `edges` of their graphs.
        runs: rows of table `runs`.

    Raises:
        DataError: a task that neither describes, or a cluster that the release does not know.
    """
    runs = runs[(runs["status"] == SUCCEEDED).to_numpy(bool)]
    clusters = {name: i for i, name in enumerate(release.cluster_id)}
    for name in dict.fromkeys(runs["cluster_id"].astype(str)):
        if name not in clusters:
            raise DataError(
                f"observed runs: cluster '{name}' is not known to release {release.version}; it knows "
                f"{', '.join(clusters)}"
            )
    tasks = _described(release.known, tables["tasks"], runs["task_id"].astype(str))
    at = {str(name): j for j, name in enumerate(tasks["task_id"])}
    task = np.array([at[name] for name in runs["task_id"].astype(str)], np.int64)
    cluster = np.array([clusters[name] for name in runs["cluster_id"].astype(str)], np.int64)
    if not len(tasks):
        none = np.zeros(0)
        points = TaskPoints(np.zeros(0, np.str_), np.zeros(0, np.str_), np.zeros((0, release.scale.mean.shape[-1])))
        return Evidence(ObservedCells(points, np.zeros(0, np.int64), none, none), {})
    seconds, noise = _seconds(release, tasks, runs, task, cluster)
    told = np.isfinite(seconds) & (seconds > 0)
    task, cluster = task[told], cluster[told]
    before = release.before({**tables, "tasks": tasks}, work=False)
    residual = np.log(seconds[told]) - before.log_time[cluster, task]
    points = before.points.take(task)
    return Evidence(
        ObservedCells.of(points, cluster, residual, noise[told] ** 2),
        {str(key): str(name) for key, name in zip(before.points.task, tasks["task_id"], strict=True)},
        tuple(runs["run_id"][told].astype(str)) if "run_id" in runs else (),
    )


def _described(known: KnownTasks, tasks: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    """Rows of the tasks that ran, from the table or by their names in the release's log."""
    import pandas as pd

    wanted = list(dict.fromkeys(names))
    here = tasks["task_id"].astype(str)
    there = set(here)
    missing = [name for name in wanted if name not in there]
    for name in missing:
        if name not in known.named:
            raise DataError(
                f"observed runs: task '{name}' is described nowhere; give its row in table 'tasks' beside the runs, or "
                "in the table of the round"
            )
    rows = tasks[here.isin(wanted).to_numpy(bool)]
    if missing:
        named = pd.DataFrame(dict.fromkeys(tasks.columns), index=range(len(missing)))
        named["task_id"] = missing
        rows = pd.concat([rows, named], ignore_index=True) if len(rows) else named
    return known.completed(rows.reset_index(drop=True))


def _seconds(
    release: Release, tasks: pd.DataFrame, runs: pd.DataFrame, task: Ints, cluster: Ints
) -> tuple[Floats, Floats]:
    """Seconds (of a sample where the release tells those) and deviation of log time of each run; nan without a time."""

    def column(frame: pd.DataFrame, name: str) -> Floats:
        return floats(frame[name]) if name in frame else np.full(len(frame), np.nan)

    batch = column(runs, "batch_size")
    batch = np.where(np.isfinite(batch), batch, column(tasks, "batch_size")[task])
    rate = column(runs, "samples_per_s")
    with np.errstate(divide="ignore", invalid="ignore"):
        per_sample = np.where(np.isfinite(rate), 1 / rate, column(runs, "step_time_s") / batch)
    per_sample = per_sample / release.pool_size[cluster]
    samples, duration = column(tasks, "samples")[task], column(runs, "duration_s")
    if release.per_sample:
        whole = duration / samples
        seconds = np.where(np.isfinite(per_sample), per_sample, whole)
        return seconds, np.where(np.isfinite(per_sample), STEP_NOISE, release.run_noise)
    seconds = np.where(np.isfinite(duration), duration, per_sample * samples)
    return seconds, np.where(np.isfinite(duration), release.run_noise, STEP_NOISE)

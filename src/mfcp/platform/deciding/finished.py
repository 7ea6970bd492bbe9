"""What a platform has observed and its champion not learned, as evidence about what waits: finished runs, and steps."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from mfcp.arrays import Texts
from mfcp.data.log.schema import SCHEMA, SUCCEEDED
from mfcp.data.log.tables import Tables, find_table, read_table
from mfcp.data.pool.logged import families
from mfcp.release.evidence import Evidence
from mfcp.release.model import Release
from mfcp.release.observing import evidence_of

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.platform.state.store import Store

NEWEST = 500  # runs that count, of families that wait
MEASURED = "measured-"  # and the id of a measurement: its name among runs


def finished_runs(
    log: Path, release: Release, waiting: pd.DataFrame, only: Collection[str] | None = None
) -> Evidence | None:
    """What the log tells of tasks like those that wait, by runs of tasks that the release did not learn from.

    So a run counts once: as evidence until a release has learned its task, and as what was learned from then on. The
    release's own tasks that ran again wait for the next training.

    Args:
        log: folder of the platform's log; there may be none yet.
        release: the champion.
        waiting: rows of table `tasks`.
        only: ids of the runs that count, to see again what a round saw; None for the newest.

    Returns:
        None where there is no such run.

    Raises:
        DataError: the log cannot be read now, or tells of a task what cannot be.
    """
    tasks = _table(log, "tasks")
    runs = _table(log, "runs")
    if tasks is None or runs is None:
        return None
    kin = set(_families(waiting))
    new = ~tasks["task_id"].isin(release.learned_from).to_numpy(bool)
    tasks = tasks[new & [family in kin for family in _families(tasks)]]
    told = runs["task_id"].isin(tasks["task_id"]) & runs["cluster_id"].isin(release.cluster_id)
    runs = runs[told.to_numpy(bool) & (runs["status"] == SUCCEEDED).to_numpy(bool)]
    runs = runs.tail(NEWEST) if only is None else runs[runs["run_id"].isin(list(only)).to_numpy(bool)]
    if runs.empty:
        return None
    tasks = tasks[tasks["task_id"].isin(runs["task_id"]).to_numpy(bool)].reset_index(drop=True)
    tables: Tables = {"tasks": tasks}
    wanted = set(tasks["graph_id"].dropna())
    for name in ("nodes", "edges"):
        if wanted and (graphs := _table(log, name)) is not None:
            tables[name] = graphs[graphs["graph_id"].isin(wanted)].reset_index(drop=True)
    return evidence_of(release, tables, runs)


def measured_steps(
    store: Store, release: Release, tables: Tables, only: Collection[str] | None = None
) -> Evidence | None:
    """The measurements of these tasks that were answered; None where there is none.

    Args:
        store: the platform's state.
        release: the champion.
        tables: `tasks`, and their graphs.
        only: ids of those that count, as in `Evidence.run_id`.
    """
    rows = store.measurements(tables["tasks"]["task_id"].astype(str).tolist())
    rows = rows[
        (rows["status"] == "measured").to_numpy(bool) & rows["cluster_id"].isin(release.cluster_id).to_numpy(bool)
    ]
    runs = rows.assign(run_id=[f"{MEASURED}{number}" for number in rows["id"]], status=SUCCEEDED)
    runs = runs if only is None else runs[runs["run_id"].isin(list(only)).to_numpy(bool)]
    return None if runs.empty else evidence_of(release, tables, runs)


def all_observed(
    store: Store, log: Path | None, release: Release, tables: Tables, only: Collection[str] | None = None
) -> Evidence | None:
    """Finished runs and measured steps together; arguments and errors as of the two."""
    steps = measured_steps(store, release, tables, only)
    runs = None if log is None else finished_runs(log, release, tables["tasks"], only)
    return steps.beside(runs) if steps and runs else steps or runs


def _families(tasks: pd.DataFrame) -> Texts:
    return families({"tasks": tasks.reindex(columns=["task_id", "model", "family"])})


def _table(log: Path, name: str) -> pd.DataFrame | None:
    path = find_table(log, name) if log.is_dir() else None
    return None if path is None else read_table(path, SCHEMA[name])

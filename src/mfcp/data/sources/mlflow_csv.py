"""Runs of an MLflow experiment, as `mlflow experiments csv -e ID -o runs.csv` exports them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from mfcp.data.sources import Source
from mfcp.data.sources.rows import log_of, moment
from mfcp.errors import DataError

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

STATUSES = {
    "FINISHED": "succeeded", "FAILED": "failed", "KILLED": "cancelled", "RUNNING": "running", "SCHEDULED": "pending",
}  # fmt: skip
_OF_TASK = ("domain", "model", "batch_size", "input_size", "precision", "phase", "samples", "family")
_OF_RUN = ("step_time_s", "samples_per_s", "batch_size", "epoch")


class MlflowCsv(Source):
    """A run is a run; which columns name its task and cluster, and hold its figures, the settings say."""

    name: ClassVar[str] = "mlflow"
    path: str = Field(min_length=1, description="CSV of `mlflow experiments csv`")
    task: str = Field("tags.mlflow.runName", description="column that names the task")
    cluster: str = Field("tags.cluster", description="column that names the cluster")
    columns: Mapping[str, str] = Field(
        {}, description="column of table tasks or runs → column of the file: {batch_size: params.batch_size}"
    )

    @field_validator("columns")
    @classmethod
    def _known(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if odd := sorted(set(value) - {*_OF_TASK, *_OF_RUN}):
            raise ValueError(f"{odd[0]}: not one of {', '.join(dict.fromkeys((*_OF_TASK, *_OF_RUN)))}")
        return value

    def read(self, seed: int) -> Tables:
        """The runs' tables; nothing is drawn.

        Raises:
            DataError: no such file, no such column, or a run without a task, a cluster or a known status.
        """
        from mfcp.border.tables import read_rows

        path = Path(self.path)
        frame = read_rows(path)
        needed = ["run_id", "status", "start_time", "end_time", self.task, self.cluster, *self.columns.values()]
        if lacking := [name for name in dict.fromkeys(needed) if name not in frame]:
            raise DataError(f"{path}: no column {', '.join(lacking)}; it has {', '.join(map(str, frame.columns))}")
        cells = frame.astype(object).where(frame.notna(), None).to_dict("records")
        tasks: dict[str, dict[str, Any]] = {}
        runs = []
        for number, row in enumerate(cells, 1):
            runs.append(self._run(path, number, {str(name): value for name, value in row.items()}))
            told = {name: row[column] for name, column in self.columns.items() if name in _OF_TASK}
            own = tasks.setdefault(runs[-1]["task_id"], told)
            for name, value in told.items():
                own[name] = value if own[name] == value else None  # it differs by run
        return log_of(path, runs, tasks)

    def _run(self, path: Path, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        for column in (self.task, self.cluster, "run_id"):
            if row[column] is None:
                raise DataError(f"{path}: row {number}, {column}: expected text, got nothing")
        if row["status"] not in STATUSES:
            raise DataError(f"{path}: row {number}, status: expected {' or '.join(STATUSES)}, got {row['status']!r}")
        begin, end = (_when(row[name]) for name in ("start_time", "end_time"))
        wall = None if begin is None or end is None else (end - begin).total_seconds()
        return {
            "run_id": str(row["run_id"]),
            "task_id": str(row[self.task]),
            "cluster_id": str(row[self.cluster]),
            "duration_s": wall if wall and wall > 0 else None,
            "status": STATUSES[row["status"]],
            "started_at": None if begin is None else begin.isoformat(),
            "error": None,
            **{name: row[column] for name, column in self.columns.items() if name in _OF_RUN},
        }


def _when(value: Any) -> Any:
    """A time, or milliseconds since the epoch, as older versions export it."""
    if isinstance(value, int | float):
        value = str(float(value) / 1000)
    return None if value is None else moment(str(value), UTC)

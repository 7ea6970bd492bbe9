"""An experiment of a real MLflow store, made here and exported by its command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mfcp.data.sources.mlflow_csv import MlflowCsv
from mfcp.errors import DataError

MADE = Path(__file__).parent / "made_here" / "mlflow.csv"
COLUMNS = {"batch_size": "params.batch_size", "model": "params.model", "step_time_s": "metrics.step_time"}


def test_runs_are_runs():
    tables = MlflowCsv(path=str(MADE), columns=COLUMNS).read(0)
    runs = tables["runs"].set_index("task_id").sort_index()
    assert list(runs.index) == ["vit-0", "vit-1"]
    assert list(runs["batch_size"]) == [8, 9]
    assert set(runs["step_time_s"]) == {0.5}
    assert set(runs["status"]) == {"succeeded"}
    assert (runs["duration_s"] > 0).all()
    assert list(tables["clusters"]["cluster_id"]) == ["alpha"]
    assert set(tables["tasks"]["model"]) == {"vit"}


def test_what_differs_between_runs_is_not_said_of_their_task():
    tables = MlflowCsv(path=str(MADE), task="params.model", columns=COLUMNS).read(0)
    (task,) = tables["tasks"].to_dict("records")
    assert (task["task_id"], task["model"]) == ("vit", "vit")
    assert tables["tasks"]["batch_size"].isna().all()
    assert sorted(tables["runs"]["attempt"]) == [1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("FINISHED", "DONE"), "row 1, status: expected FINISHED or FAILED"),
        (("vit-1", ""), "row 1, tags.mlflow.runName: expected text, got nothing"),
        (("tags.cluster", "tags.where"), "no column tags.cluster; it has run_id"),
    ],
)
def test_bad_exports_are_refused_with_their_place(tmp_path, change, message):
    path = tmp_path / "runs.csv"
    path.write_text(MADE.read_text().replace(*change))
    with pytest.raises(DataError, match=message):
        MlflowCsv(path=str(path)).read(0)


def test_only_figures_of_the_schema_are_mapped():
    with pytest.raises(ValidationError, match="loss: not one of domain, model"):
        MlflowCsv(path="x", columns={"loss": "metrics.loss"})

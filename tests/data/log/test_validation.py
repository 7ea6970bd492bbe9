import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.log import validation
from mfcp.data.log.validation import TooManyBadRowsError, validate, write_report
from mfcp.errors import DataError


def with_cell(log, name, column, row, value):
    """The log with one cell changed."""
    tables = log()
    values = tables[name][column].astype(object)
    values.iloc[row] = value
    tables[name][column] = values
    return tables


def test_a_good_log_passes_whole(small_log):
    validated = validate(small_log(), max_bad_share=0.0)
    assert validated.quarantine.empty
    assert validated.report["warnings"] == []
    assert {name: len(frame) for name, frame in validated.tables.items()} == {"tasks": 2, "clusters": 2, "runs": 8}
    assert validated.tables["runs"]["duration_s"].dtype == np.float64


def test_what_passed_passes_again(small_log):
    tables = with_cell(small_log, "runs", "run_id", 4, "r1")
    validated = validate(tables, max_bad_share=0.5)
    again = validate(validated.tables, max_bad_share=0.0)
    assert again.quarantine.empty
    for name, frame in validated.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], frame)


def test_a_wrong_phase_is_quarantined_and_its_runs_with_it(small_log):
    tables = with_cell(small_log, "tasks", "phase", 1, "Training")
    with pytest.raises(TooManyBadRowsError) as caught:
        validate(tables, max_bad_share=0.49)
    constraints = caught.value.validated.quarantine[["table", "constraint"]].value_counts().to_dict()
    assert constraints == {("tasks", "values"): 1, ("runs", "reference"): 4}
    message = str(caught.value)
    assert message.startswith(
        "more than 49.0% bad rows: tasks: 1 of 2 rows are bad (50.0%), most by constraint values(phase), "
        "expected train or infer or empty; e.g. row 2, key 'b', value 'Training'; runs: 4 of 8 rows"
    )
    assert message.endswith("mend the log or raise validate.max_bad_share")


def test_missing_table_or_column_is_an_error(small_log):
    tables = small_log()
    with pytest.raises(DataError, match=r"table 'runs' is missing; the log has tasks, clusters"):
        validate({k: v for k, v in tables.items() if k != "runs"}, max_bad_share=1.0)
    tables["runs"] = tables["runs"].drop(columns="status")
    with pytest.raises(DataError, match=r"table 'runs' lacks column status; it has task_id"):
        validate(tables, max_bad_share=1.0)


def test_extra_columns_are_kept(small_log):
    tables = small_log()
    tables["runs"]["node"] = [f"host{k}" for k in range(8)]
    assert validate(tables, max_bad_share=0.0).tables["runs"]["node"].iloc[7] == "host7"


BAD_CELLS = {
    "run_id": ["r0", "", None],
    "task_id": ["ghost", None, 1.5],
    "cluster_id": ["y", "ghost", ""],
    "attempt": [-1, 2.5, "x", None],
    "duration_s": [0.0, -3.0, 1e12, "NaN", "", None],
    "samples_per_s": [-1.0, 0.0, "1e13"],
    "status": ["", None, "failed", "cancelled"],
    "started_at": ["2026-01-01", "soon", 5],
}
change = st.sampled_from(sorted(BAD_CELLS)).flatmap(
    lambda c: st.tuples(st.just(c), st.integers(0, 7), st.sampled_from(BAD_CELLS[c]))
)


@settings(max_examples=10)
@given(changes=st.lists(change, max_size=6))
def test_every_row_is_either_kept_or_quarantined(small_log_factory, changes):
    tables = small_log_factory()
    for column, row, value in changes:
        values = tables["runs"][column].astype(object)
        values.iloc[row] = value
        tables["runs"][column] = values
    total = {name: len(frame) for name, frame in tables.items()}
    validated = validate(tables, max_bad_share=1.0)
    for name, rows in total.items():
        lines = validated.quarantine[validated.quarantine["table"] == name]
        assert len(validated.tables[name]) + lines["row"].nunique() == rows
        entry = validated.report["tables"].get(name)
        warned = lines[lines["constraint"] == "no_success"]["row"].nunique()
        assert entry["bad_rows"] == lines["row"].nunique() - warned


@pytest.fixture(scope="session")
def small_log_factory():
    """The small log for hypothesis, which takes no function-scoped fixture."""
    runs = pd.DataFrame(
        {
            "run_id": [f"r{k}" for k in range(8)],
            "task_id": list("aaaabbbb"),
            "cluster_id": list("xxyyxxyy"),
            "attempt": 1,
            "step_time_s": None,
            "samples_per_s": 1.0,
            "duration_s": 5.0,
            "status": "succeeded",
            "started_at": None,
        }
    )
    tasks = pd.DataFrame({c.name: None for c in validation.SCHEMA["tasks"].columns}, index=range(2))
    clusters = pd.DataFrame({c.name: None for c in validation.SCHEMA["clusters"].columns}, index=range(2))
    tasks["task_id"], clusters["cluster_id"] = ["a", "b"], ["x", "y"]
    return lambda: {"tasks": tasks.copy(), "clusters": clusters.copy(), "runs": runs.copy()}


def test_report_is_written_whole_and_stable(tmp_path, small_log):
    tables = with_cell(small_log, "runs", "duration_s", 2, -1.0)
    for folder in ("1", "2"):
        write_report(validate(tables, max_bad_share=0.2), tmp_path / folder)
    report = json.loads((tmp_path / "1" / "validation.json").read_text())
    assert report["tables"]["runs"]["bad_rows"] == 1
    lines = (tmp_path / "1" / "quarantine.csv").read_text().splitlines()
    assert lines[0] == "table,row,key,column,constraint,value,expected"
    assert lines[1].startswith("runs,3,r2,duration_s,range,-1.0,")
    for name in ("validation.json", "quarantine.csv"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_great_expectations_is_imported_only_to_run_a_checkpoint():
    modules = "mfcp.data.log.validation, mfcp.data.log.expectations"
    code = f"import sys, {modules}; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

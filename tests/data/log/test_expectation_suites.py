"""Suites of the schema: one expectation a constraint, the same ids every time."""

import json

from mfcp.data.log.expectation_suites import context_files, expectations, write_context
from mfcp.data.log.expectations import Expectations
from mfcp.data.log.schema import RUNS, SCHEMA


def test_every_constraint_of_a_table_is_an_expectation():
    made = {one["meta"]["constraint"]: one for one in expectations(RUNS)}
    assert made["range(duration_s)"]["kwargs"] == {
        "column": "duration_s", "min_value": 0, "max_value": 1e9, "strict_min": True,
    }  # fmt: skip
    assert {"unique(run_id)", "missing(status)", "reference(task_id)", "type(started_at)"} <= set(made)
    assert "missing(duration_s)" not in made
    pair = {one["meta"]["constraint"]: one for one in expectations(SCHEMA["truth"])}["unique(task_id, cluster_id)"]
    assert pair["kwargs"]["column_list"] == ["task_id", "cluster_id"]


def test_the_same_schema_gives_the_same_files(tmp_path):
    write_context(tmp_path / "a")
    write_context(tmp_path / "b")
    names = [path.relative_to(tmp_path / "a") for path in sorted((tmp_path / "a").rglob("*")) if path.is_file()]
    assert len(names) == len(context_files(tmp_path)) == 2 + 3 * len(SCHEMA)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert json.loads((tmp_path / "a/checkpoints/runs.json").read_text())["result_format"] == "SUMMARY"


def test_a_context_that_was_killed_half_written_is_completed(tmp_path):
    """Written file by file, dead before each one."""
    names = list(context_files(tmp_path))
    for count in range(len(names)):
        folder = tmp_path / str(count)
        write_context(folder)
        for name in names[count:]:
            (folder / name).unlink()
        Expectations(folder)
        assert [name for name in names if not (folder / name).is_file()] == []

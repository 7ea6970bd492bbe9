"""The context of Great Expectations: what it finds is what the quarantine holds, and operators add to it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mfcp.data.log import expectations
from mfcp.data.log.expectation_suites import SOURCE, context_files, own_expectations
from mfcp.data.log.expectations import Expectations, of_working_folder
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.validation import validate
from mfcp.errors import DataError

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.xdist_group("expectations")  # the package is imported once


def added(folder: Path, table: str, kind: str, **kwargs: object) -> None:
    path = folder / "expectations" / f"{table}.json"
    suite = json.loads(path.read_text())
    suite["expectations"].append({"type": kind, "kwargs": kwargs, "meta": {}})
    path.write_text(json.dumps(suite))


def is_current(folder: Path) -> bool:
    """Whether the suites of a context are the schema's, with whatever an operator has added."""
    written = {name: content for name, content in context_files(folder).items() if not isinstance(content, str)}
    return all(json.loads((folder / name).read_text()) == content for name, content in written.items())


def bad_in_every_way(small_log):
    """A log with each kind of bad row."""
    tables = small_log()
    runs = tables["runs"].astype(object)
    runs.loc[0, "duration_s"] = "long"
    runs.loc[1, "duration_s"] = -1.0
    runs.loc[2, "run_id"] = "r3"
    runs.loc[4, "task_id"] = "nobody"
    runs.loc[5, "status"] = None
    tasks = tables["tasks"].astype(object)
    tasks.loc[1, "phase"] = "sleep"
    return {**tables, "runs": runs, "tasks": tasks}


def test_the_suites_of_the_repository_are_the_schema_s():
    assert is_current(ROOT / "gx"), "run `python -m mfcp.data.log.expectation_suites`"
    for name, table in SCHEMA.items():
        suite = json.loads((ROOT / f"gx/expectations/{name}.json").read_text())
        stated = {one["meta"]["constraint"] for one in suite["expectations"] if one["meta"].get("origin") == SOURCE}
        assert len(stated) >= len(table.columns)
        assert len({one["id"] for one in suite["expectations"]}) == len(suite["expectations"])


def test_it_finds_what_the_quarantine_holds(small_log, tmp_path):
    context = Expectations(tmp_path / "gx")
    report = validate(bad_in_every_way(small_log), max_bad_share=1.0, expectations=context).report
    counted = {}
    for path in (tmp_path / "gx/uncommitted/validations").rglob("*.json"):
        for one in json.loads(path.read_text())["results"]:
            config = one["expectation_config"]
            counted[path.stem.partition("-")[2], config["meta"]["constraint"]] = one["result"]["unexpected_count"]
    ours = {
        (table, constraint["constraint"]): constraint["bad"]
        for table, entry in report["tables"].items()
        for constraint in entry["constraints"]
    }
    assert {key: count for key, count in counted.items() if count} == {key: bad for key, bad in ours.items() if bad}
    assert set(ours) <= set(counted)
    assert sum(entry["broken"] for entry in report["expectations"].values()) == sum(bad > 0 for bad in ours.values())


def test_rows_that_break_an_operator_s_expectation_are_quarantined_like_ours(small_log, tmp_path):
    folder = tmp_path / "gx"
    Expectations(folder)
    added(folder, "runs", "expect_column_values_to_be_between", column="duration_s", max_value=30)
    added(folder, "runs", "expect_column_values_to_match_regex", column="owner", regex="^mine$")
    tables = small_log()
    tables["runs"]["owner"] = ["mine"] * 7 + ["theirs"]
    found = validate(tables, max_bad_share=1.0, expectations=Expectations(folder))
    lines = found.quarantine[found.quarantine["constraint"] == "expectation"]
    late = tables["runs"]["duration_s"] > 30
    assert sorted(lines.loc[lines["column"] == "duration_s", "row"]) == (np.flatnonzero(late) + 1).tolist()
    assert lines.loc[lines["column"] == "owner", "row"].tolist() == [8]
    assert lines["expected"].str.contains("max_value 30").any()
    assert not found.tables["runs"]["duration_s"].gt(30).any()
    with pytest.raises(DataError, match=r"runs: .* rows are bad"):
        validate(tables, max_bad_share=0.1, expectations=Expectations(folder))


def test_what_an_operator_has_added_stays_when_the_schema_s_part_is_written_anew(tmp_path):
    folder = tmp_path / "gx"
    Expectations(folder)
    added(folder, "tasks", "expect_column_values_to_not_be_null", column="model")
    expectations.write_context(folder)
    (own,) = own_expectations(folder)["tasks"]
    assert own["kwargs"] == {"column": "model"}
    assert is_current(folder)


def test_one_about_a_whole_table_stops_the_run_when_it_is_broken(small_log, tmp_path):
    folder = tmp_path / "gx"
    Expectations(folder)
    added(folder, "runs", "expect_table_row_count_to_be_between", min_value=1)
    validate(small_log(), max_bad_share=0.0, expectations=Expectations(folder))
    added(folder, "runs", "expect_column_mean_to_be_between", column="duration_s", max_value=1)
    with pytest.raises(
        DataError, match=r"runs.json: expect_column_mean_to_be_between of duration_s is broken, observed"
    ):
        validate(small_log(), max_bad_share=0.0, expectations=Expectations(folder))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: added(f, "runs", "expect_column_values_to_not_be_null", column="nothing"), "cannot be evaluated"),
        (
            lambda f: added(f, "runs", "expect_what_nobody_knows", column="run_id"),
            "no expectation is called",
        ),
        (lambda f: (f / "expectations/runs.json").write_text("{"), "not valid JSON"),
        (lambda f: (f / "expectations/runs.json").write_text("[]"), "not a suite of Great Expectations"),
        (lambda f: (f / "great_expectations.yml").write_text("stores: 3"), "not a context of Great Expectations"),
    ],
)
def test_a_damaged_context_is_named(small_log, tmp_path, damage, said):
    folder = tmp_path / "gx"
    Expectations(folder)
    damage(folder)
    with pytest.raises(DataError, match=said) as caught:
        validate(small_log(), max_bad_share=1.0, expectations=Expectations(folder))
    assert str(folder) in str(caught.value)


def test_large_tables_are_sampled_and_every_bad_row_is_in_the_sample(small_log, tmp_path, monkeypatch):
    monkeypatch.setattr(expectations, "MOST_ROWS", 40)
    tables = small_log()
    runs = pd.concat([tables["runs"]] * 20, ignore_index=True)
    runs["run_id"] = [f"r{k}" for k in range(len(runs))]
    runs.loc[[3, 77, 150], "duration_s"] = -1.0
    context = Expectations(tmp_path / "gx")
    validate({**tables, "runs": runs}, max_bad_share=1.0, expectations=context)
    assert context.report["runs"]["rows"] == 40
    (path,) = (tmp_path / "gx/uncommitted/validations/runs").rglob("*.json")
    results = json.loads(path.read_text())["results"]
    ranges = [one for one in results if one["expectation_config"]["kwargs"].get("max_value") == 1e9]
    assert max(one["result"]["unexpected_count"] for one in ranges) == 3


def test_an_operator_s_expectations_see_the_whole_of_a_sampled_table(small_log, tmp_path, monkeypatch):
    monkeypatch.setattr(expectations, "MOST_ROWS", 40)
    tables = small_log()
    runs = pd.concat([tables["runs"]] * 20, ignore_index=True)
    runs["run_id"] = [f"r{k}" for k in range(len(runs))]
    runs["attempt_of"] = [f"a{k}" for k in range(len(runs))]
    runs.loc[len(runs) - 1, "attempt_of"] = "a1"  # far from the other one
    folder = tmp_path / "gx"
    Expectations(folder)
    added(folder, "runs", "expect_table_row_count_to_equal", value=len(runs))
    added(folder, "runs", "expect_column_values_to_be_unique", column="attempt_of")
    added(folder, "runs", "expect_compound_columns_to_be_unique", column_list=["task_id", "attempt_of"])
    found = validate({**tables, "runs": runs}, max_bad_share=1.0, expectations=Expectations(folder))
    lines = found.quarantine[found.quarantine["constraint"] == "expectation"]
    assert lines.loc[lines["column"] == "attempt_of", "row"].tolist() == [2, len(runs)]
    added(folder, "runs", "expect_table_row_count_to_equal", value=40)
    with pytest.raises(DataError, match="expect_table_row_count_to_equal of the table is broken"):
        validate({**tables, "runs": runs}, max_bad_share=1.0, expectations=Expectations(folder))


def test_data_docs_are_built_and_old_results_are_dropped(small_log, tmp_path, monkeypatch):
    monkeypatch.setattr(expectations, "_KEPT", 2)
    context = Expectations(tmp_path / "gx")
    for _ in range(4):
        validate(small_log(), max_bad_share=0.0, expectations=context)
    page = context.publish()
    assert "runs" in page.read_text()
    assert len(list((tmp_path / "gx/uncommitted/validations/runs").glob("*/*"))) == 2
    pages = list(page.parent.rglob("*.html"))
    assert len([own for own in pages if own.is_relative_to(page.parent / "validations/runs")]) == 2


def test_commands_heed_a_context_only_where_somebody_has_added_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert of_working_folder() is None
    Expectations()
    assert of_working_folder() is None
    added(Path("gx"), "runs", "expect_column_values_to_not_be_null", column="duration_s")
    assert of_working_folder() is not None

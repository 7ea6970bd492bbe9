import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import read_tables, write_tables
from mfcp.errors import DataError

FORMATS = ("parquet", "csv", "jsonl")


@pytest.fixture
def folder(tmp_path, small_log):
    write_tables(small_log(), tmp_path, format="csv")
    return tmp_path


def typed(tables):
    return {name: coerce(SCHEMA[name], frame).frame for name, frame in tables.items()}


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_is_read(tmp_path, small_log, format):
    tables = typed(small_log())
    tables["tasks"]["note"] = ["kept", None]
    write_tables(tables, tmp_path, format=format)
    again = read_tables(tmp_path)
    assert set(again) == set(tables)
    for name, frame in tables.items():
        columns = [c.name for c in SCHEMA[name].columns]
        pd.testing.assert_frame_equal(again[name][columns], frame[columns])
    assert again["tasks"]["note"].iloc[0] == "kept"
    assert pd.isna(again["tasks"]["note"].iloc[1])


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_tables_give_the_same_bytes(tmp_path, small_log, format):
    first = [p.read_bytes() for p in write_tables(typed(small_log()), tmp_path / "1", format=format)]
    second = [p.read_bytes() for p in write_tables(read_tables(tmp_path / "1"), tmp_path / "2", format=format)]
    assert first == second


text = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
real = st.none() | st.floats(allow_nan=False, allow_infinity=False)
run = st.fixed_dictionaries(
    {
        "run_id": text,
        "task_id": text,
        "cluster_id": text,
        "attempt": st.none() | st.integers(-(2**62), 2**62),
        "step_time_s": real,
        "samples_per_s": real,
        "duration_s": real,
        "status": text,
        "started_at": st.none() | st.datetimes(pd.Timestamp(1970, 1, 1), pd.Timestamp(2100, 1, 1)),
        "error": st.none() | text,
    }
)


@settings(max_examples=40)
@given(rows=st.lists(run, min_size=1, max_size=6), format=st.sampled_from(FORMATS))
def test_any_values_survive_writing_and_reading(tmp_path_factory, rows, format):
    folder = tmp_path_factory.mktemp("log")
    stub = pd.DataFrame({c.name: ["x"] for c in SCHEMA["tasks"].columns})
    clusters = pd.DataFrame({c.name: ["x"] for c in SCHEMA["clusters"].columns})
    runs = coerce(SCHEMA["runs"], pd.DataFrame(rows)).frame
    write_tables({"tasks": stub, "clusters": clusters, "runs": runs}, folder, format=format)
    pd.testing.assert_frame_equal(read_tables(folder)["runs"], runs, check_exact=True)


def test_writing_another_format_replaces_the_table(folder, small_log):
    write_tables(small_log(), folder, format="parquet")
    assert sorted(p.name for p in folder.iterdir()) == ["clusters.parquet", "runs.parquet", "tasks.parquet"]


def test_unknown_files_are_ignored_and_absent_optional_columns_are_empty(folder):
    (folder / "graphs.csv").write_text("nothing\n")
    tables = read_tables(folder)
    assert set(tables) == {"tasks", "clusters", "runs"}
    assert tables["tasks"]["samples"].isna().all()


def test_missing_folder(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such folder; expected one that holds tasks\.parquet"):
        read_tables(tmp_path / "nowhere")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "trace.csv").write_text("job,submit\n")
    with pytest.raises(DataError, match=r"trace\.csv: a file; expected the folder .* is for `mfcp simulate --trace`"):
        read_tables(tmp_path / "trace.csv")


def test_a_folder_with_nothing_of_a_log_may_hold_a_trace(tmp_path, folder):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "jobs.csv").write_text("job,submit\n")
    with pytest.raises(DataError, match=r"saw jobs\.csv\. A trace of jobs is for `mfcp simulate --trace`"):
        read_tables(tmp_path / "other")
    (folder / "tasks.csv").unlink()
    with pytest.raises(DataError, match=r"table 'tasks' is missing.*runs\.csv$"):
        read_tables(folder)


def test_missing_table(folder):
    (folder / "runs.csv").unlink()
    with pytest.raises(DataError, match=r"table 'runs' is missing; expected runs\.parquet .*saw clusters\.csv"):
        read_tables(folder)


def test_two_files_of_one_table(folder):
    (folder / "runs.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"runs\.csv and runs\.jsonl both hold table 'runs'"):
        read_tables(folder)


@pytest.mark.parametrize("format", FORMATS)
def test_empty_file(folder, format):
    (folder / "runs.csv").unlink()
    (folder / f"runs.{format}").touch()
    with pytest.raises(DataError, match=rf"runs\.{format}: empty file"):
        read_tables(folder)


def test_columns_without_rows(folder):
    path = folder / "runs.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(DataError, match=r"runs\.csv: table 'runs' has columns but no rows"):
        read_tables(folder)


def test_missing_column_is_named_with_those_seen(folder):
    path = folder / "clusters.csv"
    path.write_text(path.read_text().replace("accelerator_count", "gpus"))
    assert read_tables(folder)["clusters"]["accelerator_count"].isna().all()  # it may be left out
    path.write_text(path.read_text().replace("cluster_id", "name"))
    with pytest.raises(DataError, match=r"'clusters' lacks column cluster_id; it has name, .*gpus.*add it, no cell"):
        read_tables(folder)


@pytest.mark.parametrize(
    ("before", "after", "remedy"),
    [
        ("cluster_id,", " Cluster_ID,", "it has  Cluster_ID, .*; rename ' Cluster_ID' to cluster_id$"),
        (",", ";", "; cells are parted by ';': save it with commas$"),
        (",", "\t", r"; cells are parted by '\\t': save it with commas$"),
        ("cluster_id,", "Cluster ID,", "; rename 'Cluster ID' to cluster_id$"),
        ("cluster_id,", "Cluster_id (name),", "add it, no cell of it may be empty$"),
    ],
)
def test_a_column_under_a_near_name_and_other_marks_are_told(folder, before, after, remedy):
    path = folder / "clusters.csv"
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(DataError, match=remedy):
        read_tables(folder)


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("number", ["1.5", "1,5"])
def test_so_they_are_where_runs_get_names_and_numbers_have_commas(folder, mark, number):
    header = mark.join(("task_id", "cluster_id", "duration_s", "status"))
    (folder / "runs.csv").write_text(f"{header}\n{mark.join(('t0', 'a', number, 'succeeded'))}\n")
    with pytest.raises(DataError) as found:
        read_tables(folder, name_runs=True)
    assert f"cells are parted by {mark!r}: save it with commas" in str(found.value)


@pytest.mark.parametrize("name_runs", [False, True])
def test_a_header_that_is_missing_is_asked_for(folder, name_runs):
    for row, told in (
        ("t0,a,1.5,succeeded", "none of these is a column of it: write the names of the columns as the first line"),
        (
            "t0,a,1.5,,,succeeded",
            "column '' occurs twice; keep one, and if the first line is a row, write the names above",
        ),
    ):
        (folder / "runs.csv").write_text(f"{row}\n{row}\n")
        with pytest.raises(DataError, match=told):
            read_tables(folder, name_runs=name_runs)


def test_runs_without_a_name_are_named_where_that_is_asked_for(tmp_path, small_log):
    write_tables(small_log(), tmp_path, format="csv")
    runs = pd.read_csv(tmp_path / "runs.csv").drop(columns="run_id")
    runs.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(DataError, match="table 'runs' lacks column run_id"):
        read_tables(tmp_path)  # as deliveries are read, whose runs are known by their names
    assert list(read_tables(tmp_path, name_runs=True)["runs"]["run_id"][:2]) == ["row 1", "row 2"]
    assert read_tables(tmp_path, name_runs=True)["runs"]["run_id"].is_unique


def test_a_column_given_twice(folder):
    path = folder / "clusters.csv"
    path.write_text(path.read_text().replace("peak_flops", "software", 1))
    with pytest.raises(DataError, match=r"clusters"):
        read_tables(folder)


@pytest.mark.parametrize("format", FORMATS)
def test_a_cell_of_wrong_type_does_not_lose_the_log(tmp_path, small_log, format):
    tables = small_log()
    tables["runs"]["duration_s"] = [10.0, "fast", *[10.0] * 6]
    write_tables(tables, tmp_path, format=format)
    runs = read_tables(tmp_path)["runs"]
    assert runs["duration_s"].iloc[1] == "fast"
    assert coerce(SCHEMA["runs"], runs).wrong["duration_s"].tolist() == [False, True, *[False] * 6]


def test_nan_in_a_file_is_not_an_empty_cell(tmp_path, small_log):
    write_tables(small_log(), tmp_path)
    arrow = pyarrow.parquet.read_table(tmp_path / "runs.parquet")
    values = pa.array([float("nan"), None, *[10.0] * 6], pa.float64())
    arrow = arrow.set_column(arrow.column_names.index("duration_s"), "duration_s", values)
    pyarrow.parquet.write_table(arrow, tmp_path / "runs.parquet")
    runs = read_tables(tmp_path)["runs"]
    assert list(coerce(SCHEMA["runs"], runs).wrong) == ["duration_s"]
    for format in ("csv", "jsonl"):
        write_tables({"runs": runs}, tmp_path, format=format)
        wrong = coerce(SCHEMA["runs"], read_tables(tmp_path)["runs"]).wrong
        assert wrong["duration_s"].tolist() == [True, *[False] * 7]
    line = json.dumps(dict.fromkeys(runs) | {"duration_s": float("nan")})
    (tmp_path / "runs.jsonl").write_text(line + "\n")
    assert coerce(SCHEMA["runs"], read_tables(tmp_path)["runs"]).wrong["duration_s"].all()


def test_unknown_table_is_not_written(tmp_path):
    with pytest.raises(DataError, match="unknown table 'jobs'"):
        write_tables({"jobs": pd.DataFrame()}, tmp_path)


def test_a_folder_that_cannot_be_written_keeps_what_it_holds(tmp_path, small_log, monkeypatch):
    write_tables(small_log(), tmp_path)
    before = (tmp_path / "runs.parquet").read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    with pytest.raises(DataError, match="No space left on device"):
        write_tables({"runs": small_log()["runs"].head(1)}, tmp_path)
    assert (tmp_path / "runs.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_is_a_file(tmp_path, small_log):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(DataError, match="cannot write"):
        write_tables(small_log(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"

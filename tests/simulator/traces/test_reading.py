"""Traces from files: names of columns, order, and bad rows."""

import numpy as np
import pandas as pd
import pytest

from mfcp.errors import DataError, SettingsError
from mfcp.simulator.traces.reading import read_trace

GOOD = {"submit": [5, 0, 9], "duration": [10, 20, 30], "gpus": [1, 2, 4]}


def written(tmp_path, content, name="trace.csv"):
    path = tmp_path / name
    frame = pd.DataFrame(content)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["trace.csv", "trace.parquet"])
def test_jobs_are_sorted_by_submission_and_start_at_zero(tmp_path, name):
    content = GOOD | {"user": ["a", None, "b"], "deadline_s": [100, None, 90], "job": ["x", "y", "z"]}
    trace = read_trace(written(tmp_path, content, name))
    assert trace.jobs.id.tolist() == ["y", "x", "z"]
    assert trace.jobs.submit.tolist() == [0, 5, 9]
    assert trace.jobs.duration.tolist() == [20, 10, 30]
    assert trace.jobs.deadline.tolist() == [np.inf, 100, 90]
    assert trace.jobs.user.tolist() == ["", "a", "b"]
    assert trace.row.tolist() == [2, 1, 3]
    assert trace.notes == ("rows were not in the order of submission and have been sorted",)


def test_durations_may_be_written_out(tmp_path):
    spans = ["10", "00:10:00", " 1-02:03:04", "2 days 100:00:00.5", "1 day 00:00:01", None]
    content = {"submit": range(6), "elapsed": spans, "gpus": [1] * 6, "end": [""] * 6}
    path = written(tmp_path, content)
    assert read_trace(path).jobs.duration.tolist() == [10, 600, 93784, 532800.5, 86401]
    frame = pd.DataFrame({"submit": [0], "duration": pd.to_timedelta(["01:00:00"]), "gpus": [1]})
    frame.to_parquet(tmp_path / "spans.parquet")
    assert read_trace(tmp_path / "spans.parquet").jobs.duration.tolist() == [3600]


@pytest.mark.parametrize("span", ["10:30", "00:60:00", "1:2:3", "-00:10:00"])
def test_a_span_that_could_be_another_one_is_refused(tmp_path, span):
    with pytest.raises(
        DataError, match=rf"row 2: duration is '{span}', expected seconds above 0, or a span such as 1-02"
    ):
        read_trace(written(tmp_path, GOOD | {"duration": ["10", span, "10"]}))


def test_other_names_of_columns(tmp_path):
    content = {"submit_time_s": [7], "duration_s": [1], "num_gpus": [3], "virtual_cluster": ["v"]}
    jobs = read_trace(written(tmp_path, content)).jobs
    assert (jobs.submit[0], jobs.gpus[0], jobs.user[0], jobs.id[0]) == (0, 3, "v", "1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"duration": [10, -3, 30]},
            r"row 2: duration is '-3', expected seconds above 0, or a span such as 1-02:03:04; 1 of 3 rows are bad",
        ),
        ({"submit": [5, "soon", 9]}, r"row 2: submit is 'soon', expected seconds, 0 or more"),
        ({"gpus": [1, None, 4]}, r"row 2: gpus is .*, expected a whole number of at least 1"),
        ({"gpus": [1, 2, 9]}, r"row 3: gpus is '9', expected a whole number of at least 1 and at most 8"),
        ({"gpus": [1, 2.5, 4]}, r"row 2: gpus is '2.5', expected a whole number"),
        ({"success": [1, 0, 0.5]}, r"row 2: success is '0.0', expected a probability above 0"),
        ({"duration": ["inf", 20, 30]}, r"row 1: duration is 'inf'"),
        ({"job": ["x", "y", "x"]}, r"rows 1 and 3 have the same job 'x'; give every job a name of its own"),
    ],
)
def test_a_bad_row_is_named_with_what_was_expected(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        read_trace(written(tmp_path, GOOD | change), most=8)


def test_bad_rows_can_be_left_out(tmp_path):
    path = written(tmp_path, GOOD | {"duration": [10, -3, 30], "gpus": [1, 2.5, 4]})
    trace = read_trace(path, leave_out=True)
    assert trace.jobs.duration.tolist() == [10, 30]
    assert trace.left_out[["row", "column", "value"]].values.tolist() == [[2, "duration", "-3"], [2, "gpus", "2.5"]]
    assert trace.notes[0] == "2 bad cells: 1 of 3 rows are left out"
    with pytest.raises(DataError, match="none of 3 rows is left: 3 rows are bad"):
        read_trace(written(tmp_path, GOOD | {"gpus": [2.5, 2.5, 2.5]}), leave_out=True)


def test_jobs_without_accelerators_or_a_run_are_counted_and_left_out(tmp_path):
    trace = read_trace(written(tmp_path, GOOD | {"duration": [10, 0, 30], "gpus": [1, 2, 0]}))
    assert trace.jobs.id.tolist() == ["1"]
    assert trace.left_out["expected"].tolist() == ["ran for no time", "ask for no accelerators"]
    with pytest.raises(DataError, match="none of 3 rows is left: 3 jobs ask for no accelerators"):
        read_trace(written(tmp_path, GOOD | {"gpus": [0, 0, 0]}))


def test_columns_can_be_named(tmp_path):
    when = ["2024-01-01T00:00:10Z", "2024-01-01 02:00:05+02:00"]
    path = written(tmp_path, {"when": when, "long": [1, 2], "n": [1, 1]})
    roles = {"submit": "when", "duration": "long", "gpus": "n"}
    trace = read_trace(path, columns=roles)
    assert (trace.jobs.submit.tolist(), trace.jobs.duration.tolist()) == ([0, 5], [2, 1])
    with pytest.raises(SettingsError, match=r"no role 'size'; known are job, task, submit"):
        read_trace(path, columns=roles | {"size": "n"})
    with pytest.raises(DataError, match=r"no column 'm' \(for gpus\); there are when, long, n"):
        read_trace(path, columns=roles | {"gpus": "m"})


def test_a_header_may_be_written_for_people(tmp_path):
    rows = {"Submit Time": [0, 5], " DURATION (s)": [1, 2], "num-gpus": [1, 3], "note": ["", ""]}
    jobs = read_trace(written(tmp_path, rows)).jobs
    assert (jobs.submit.tolist(), jobs.duration.tolist(), jobs.gpus.tolist()) == ([0, 5], [1, 2], [1, 3])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("submit;duration;gpus\n0;10;1\n", r"trace\.csv: cells are parted by ';'; save it with commas$"),
        ("submit\tduration\tgpus\n0\t10\t1\n", r"cells are parted by '\\t'; save it with commas$"),
        ("submit;duration;gpus\n0;10,5;1\n", "parted by ';': save it with commas, and numbers with points$"),
        ("0,10,1\n5,20,2\n", "no names of columns in its first line: 0, 10, 1; write them above it$"),
    ],
)
def test_other_marks_and_a_header_that_is_missing_are_told(tmp_path, text, told):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(DataError, match=told):
        read_trace(tmp_path / "trace.csv")


def test_a_column_is_of_times_or_of_seconds(tmp_path):
    path = written(tmp_path, GOOD | {"submit": ["2024-01-01 00:00:00", "7", "2024-01-01 00:00:01"]})
    with pytest.raises(DataError, match="row 2: submit is '7', expected seconds, 0 or more, or a time such as"):
        read_trace(path)
    ends = {"submit": [0, 1, 2], "start": [1, 2, 3], "end": [3, 1, 9], "gpus": [1, 1, 1]}
    with pytest.raises(DataError, match="row 2: end is '1', expected a time after the start"):
        read_trace(written(tmp_path, ends))
    del ends["start"]
    ends["end"] = [3, 4, 9]
    trace = read_trace(written(tmp_path, ends))
    assert trace.jobs.duration.tolist() == [3, 3, 7]
    assert trace.notes == ("no column of starts: durations are from submission to end",)


def test_files_and_columns_that_are_missing(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: no such file; expected a table"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"no column for gpus \(gpus, num_gpus, .*\); there are submit, duration; name"):
        read_trace(written(tmp_path, {key: GOOD[key] for key in ("submit", "duration")}))
    with pytest.raises(DataError, match=r"for submit \(.*\); gpus \(.*\); duration \(.*--columns submit=…,gpus=…,dur"):
        read_trace(written(tmp_path, {"a": [1], "b": [2]}))
    (tmp_path / "empty.csv").write_text("submit,duration,gpus\n")
    with pytest.raises(DataError, match="no rows"):
        read_trace(tmp_path / "empty.csv")


STAGES = {"iterations": [10, 10], "loading_s": [1, 0], "computing": [2, 5], "RESOURCE_2_TIME_S": [0, 5.2]}


def test_stages_of_an_iteration(tmp_path):
    content = {"submit": [0, 1], "duration": [50, 100], "gpus": [1, 1], **STAGES}
    assert read_trace(written(tmp_path, content)).jobs.stages.tolist() == [[1, 2, 0], [0, 5, 5.2]]
    assert read_trace(written(tmp_path, GOOD)).jobs.stages.shape[1] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"computing": [0, 5], "loading_s": [0, 0]}, r"row 1: computing is '0', expected seconds above 0 in one of"),
        ({"loading_s": [-1, 0]}, r"row 1: loading_s is '-1', expected seconds, at least 0"),
        (
            {"loading_s": [50, 0]},
            r"row 1: loading_s is '50', expected seconds, at least 0 and below ten times duration",
        ),
        ({"loading_s": ["", 0]}, r"row 1: loading_s is '', expected"),
        ({"iterations": None}, "are seconds of an iteration; expected a column iterations"),
        ({"loading_s": None}, "there are only computing, sending; expected loading, computing, sending"),
    ],
)
def test_stages_that_cannot_be(tmp_path, change, message):
    content = {"submit": [0, 1], "duration": [50, 100], "gpus": [1, 1], **STAGES} | change
    content = {name: values for name, values in content.items() if values is not None}
    with pytest.raises(DataError, match=message):
        read_trace(written(tmp_path, content))


def test_names_in_any_case_and_with_their_unit(tmp_path):
    content = {"JobID": ["x"], "Submit_Time_s": [3], "Start": [4], "End": [9], "NUM_GPUS": [2]}
    trace = read_trace(written(tmp_path, content))
    assert (trace.jobs.id.tolist(), trace.jobs.duration.tolist(), trace.jobs.gpus.tolist()) == (["x"], [5], [2])

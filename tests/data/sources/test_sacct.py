"""Accounting of a real cluster, made on this kind of machine, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from mfcp.data.log.validation import validate
from mfcp.data.sources.sacct import Sacct
from mfcp.errors import DataError, SettingsError

MADE = Path(__file__).parent / "made_here"
HEADER = "JobID|JobName|State|ExitCode|Start|End|ElapsedRaw|Cluster\n"
ROW = "1|t|COMPLETED|0:0|1795753622|1795753624|2|alpha\n"


@pytest.mark.parametrize("name", ["sacct.psv", "sacct.json"])
def test_jobs_are_runs(name):
    tables = Sacct(path=str(MADE / name)).read(0)
    runs = tables["runs"].set_index("task_id")
    statuses = {task: sorted(own["status"]) for task, own in tables["runs"].groupby("task_id")}
    assert statuses["fine"] == ["succeeded", "succeeded"]
    assert statuses["bad"] == ["failed"]
    assert statuses["big"] == ["oom"]  # Slurm says FAILED 0:9
    assert statuses["stop"] == ["cancelled"]
    assert sorted(runs.loc["fine", "duration_s"]) == [1.0, 2.0]
    assert sorted(runs.loc["fine", "attempt"]) == [1, 2]
    assert runs.loc["bad", "duration_s"] != runs.loc["bad", "duration_s"]  # under a second
    assert runs.loc["fine", "started_at"].notna().all()
    assert list(tables["clusters"]["cluster_id"]) == ["alpha"]
    assert tables["tasks"].set_index("task_id").loc["fine"].isna().all()  # nothing of a task is made up
    assert len(validate(tables, max_bad_share=0.9).tables["runs"])


def written(tmp_path, text):
    path = tmp_path / "jobs.psv"
    path.write_text(text)
    return str(path)


def test_times_without_a_zone_are_of_the_one_that_is_said(tmp_path):
    row = "1|t|COMPLETED|0:0|2026-07-01T12:00:00|2026-07-01T12:00:02|2|alpha\n"
    runs = Sacct(path=written(tmp_path, HEADER + row), zone="Europe/Paris").read(0)["runs"]
    assert str(runs["started_at"].iloc[0]).startswith("2026-07-01 10:00")
    with pytest.raises(SettingsError, match="'Mars' is not known here"):
        Sacct(path=written(tmp_path, HEADER + row), zone="Mars").read(0)


def test_a_bar_at_the_end_and_lines_as_elsewhere_change_nothing(tmp_path):
    plain = Sacct(path=written(tmp_path, HEADER + ROW)).read(0)["runs"]
    for text in ((HEADER + ROW).replace("\n", "|\n"), "\ufeff" + HEADER + ROW, (HEADER + ROW).replace("\n", "\r\n")):
        path = tmp_path / "jobs.psv"
        path.write_bytes(text.encode())
        pd.testing.assert_frame_equal(Sacct(path=str(path)).read(0)["runs"], plain)


def test_jobs_that_are_not_over_say_so(tmp_path):
    text = HEADER + ROW + "2|t|RUNNING|0:0|1795753699|Unknown|9|alpha\n3|t|PENDING|0:0|Unknown|Unknown|0|alpha\n"
    assert sorted(Sacct(path=written(tmp_path, text)).read(0)["runs"]["status"]) == ["pending", "running", "succeeded"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JobID|State\n", "no column JobName, ExitCode, Start, End, ElapsedRaw; print it with sacct -P"),
        (HEADER, "no run in it"),
        (HEADER + "1|t|COMPLETED\n", "row 2: expected 8 cells between bars, got 3"),
        (HEADER + ROW.replace("|t|", "|a|b|"), "row 2: expected 8 cells between bars, got 9; where names have bars"),
        (HEADER + ROW.replace("|2|", "|two|"), "row 2, ElapsedRaw: expected seconds, got 'two'"),
        (HEADER + ROW.replace("|t|", "||"), "row 2: JobName is empty"),
        (HEADER + ROW.replace("alpha", ""), "row 2: no column Cluster"),
        (HEADER + ROW + ROW, "run 'alpha/1/1795753622' occurs 2 times"),
        ("\udcff", "not text in UTF-8"),
    ],
)
def test_bad_accounting_is_refused_with_its_place(tmp_path, text, message):
    path = tmp_path / "jobs.psv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message):
        Sacct(path=str(path)).read(0)


@pytest.mark.parametrize("text", ["[]", "{}", '{"jobs": [{}]}', '{"jobs": [1]}', "{"])
def test_bad_json_is_refused(tmp_path, text):
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"jobs\.json"):
        Sacct(path=str(path)).read(0)


def test_newer_versions_wrap_numbers_and_states():
    from mfcp.data.sources.sacct import _as_text

    def number(value):
        return {"set": True, "infinite": False, "number": value}

    job = {
        "job_id": 7, "name": "t", "cluster": "a", "state": {"current": ["TIMEOUT"], "reason": "None"},
        "exit_code": {"return_code": number(0), "signal": {"id": number(9), "name": "KILL"}},
        "time": {"start": 5, "end": 9, "elapsed": 4}, "steps": [],
        "tres": {"allocated": [{"type": "mem", "count": 200}]}, "comment": {"job": "x"},
    }  # fmt: skip
    told = _as_text(job)
    assert (told["State"], told["ExitCode"], told["ElapsedRaw"], told["Comment"]) == ("TIMEOUT", "0:9", "4", "x")

"""A log beyond one part gives commands what it gives them in memory."""

import errno
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log

from mfcp.cli import main
from mfcp.data.log import copying, parts
from mfcp.data.log.parted import ValidatedParts
from mfcp.data.log.tables import write_tables
from mfcp.data.log.validation import TooManyBadRowsError
from mfcp.data.pool.run_totals import RunTotals, Values
from mfcp.data.validated_log import validated_log
from mfcp.errors import DataError
from mfcp.files import UnwritableError, replacing


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 40 rows, in this process; text counts as rows of few bytes."""
    monkeypatch.setattr(parts, "cores", lambda: 1)
    monkeypatch.setattr("mfcp.data.pool.reading.cores", lambda: 1)
    for module in (parts, copying):
        monkeypatch.setattr(module, "PART_ROWS", 40)


def spoiled(folder, form, named=True):
    log = small_log(8, runs=4)
    runs = log["runs"]
    runs.loc[[3, 60], "duration_s"] = -5.0
    runs.loc[runs["task_id"] == "task7", "status"] = "failed"
    if not named:
        log["runs"] = runs.drop(columns="run_id")
    write_tables(log, folder, format="parquet")
    if form != "parquet":
        (folder / "runs.parquet").unlink()
    if form == "csv":
        log["runs"].to_csv(folder / "runs.csv", index=False)
    if form == "folder":
        (folder / "runs").mkdir()
        for k in range(3):
            log["runs"].iloc[32 * k : 32 * k + 32].to_csv(folder / "runs" / f"day-{k}.csv", index=False)
    return folder


def seen(folder):
    with validated_log(folder, max_bad_share=1.0) as log:
        return log, pd.concat(log.findings.sheets(), ignore_index=True)


def same_totals(one: RunTotals, other: RunTotals):
    for f in fields(RunTotals):
        a, b = getattr(one, f.name), getattr(other, f.name)
        for x, y in zip(
            *((v.count, v.total, v.square) if isinstance(v, Values) else (v,) for v in (a, b)), strict=True
        ):
            if f.name == "batches":
                assert [own.tolist() for own in x] == [own.tolist() for own in y]
            elif np.asarray(x).dtype.kind in "fi":
                np.testing.assert_allclose(x, y, rtol=1e-9)
            else:
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("form", ["parquet", "csv", "folder"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_in_parts_as_in_memory(tmp_path, small_parts, monkeypatch, form, named):
    folder = spoiled(tmp_path / "log", form, named)
    log, lines = seen(folder)
    assert isinstance(log.findings, ValidatedParts)
    for module in (parts, copying):
        monkeypatch.setattr(module, "PART_ROWS", 2**20)
    memory, expected = seen(folder)
    assert "runs" not in log.tables
    assert (log.runs, log.bad_rows) == (memory.runs, memory.bad_rows) == (82, 2)
    assert log.findings.report == memory.findings.report
    same_totals(log.tables.totals, memory.tables.totals)
    keys = ["table", "row", "column", "constraint", *(["key"] if named or form != "folder" else [])]
    ordered = [frame[keys].astype(str).sort_values(keys).to_numpy().tolist() for frame in (lines, expected)]
    assert ordered[0] == ordered[1]


def test_rows_of_several_files_are_named_by_their_file(tmp_path, small_parts):
    _, lines = seen(spoiled(tmp_path / "log", "folder", named=False))
    assert lines.loc[lines["constraint"] == "range", "key"].tolist() == ["day-0.csv row 4", "day-1.csv row 29"]


def test_names_in_some_files_alone_are_an_error(tmp_path, small_parts):
    folder = spoiled(tmp_path / "log", "folder", named=False)
    day = folder / "runs" / "day-1.csv"
    pd.read_csv(day).assign(run_id=[f"r{k}" for k in range(32)]).to_csv(day, index=False)
    with pytest.raises(DataError, match=r"day-0\.csv: table 'runs' lacks column run_id"):
        seen(folder)


def test_too_many_bad_rows_are_refused_and_nothing_is_left(tmp_path, small_parts, monkeypatch):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with (
        pytest.raises(TooManyBadRowsError, match=r"runs: 2 of 96 rows are bad"),
        validated_log(spoiled(tmp_path / "log", "csv"), max_bad_share=0.01),
    ):
        pass
    assert not list(scratch.iterdir())


def test_a_full_temporary_folder_says_how_to_name_another(tmp_path, small_parts, monkeypatch):
    def full(frame, path, key):
        with replacing(path):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copying, "write_part", full)
    words = r"No space left on device\); free space or choose another folder by TMPDIR"
    with (
        pytest.raises(UnwritableError, match=words),
        validated_log(spoiled(tmp_path / "log", "csv"), max_bad_share=1.0),
    ):
        pass


def test_check_says_the_same(tmp_path, small_parts, monkeypatch, capsys):
    folder = spoiled(tmp_path / "log", "csv")

    def said(*options):
        with pytest.raises(SystemExit) as end:
            main(["check", str(folder), *options])
        assert end.value.code == 0
        return capsys.readouterr().out

    sheet = tmp_path / "bad.csv"
    in_parts = said("--quarantine", str(sheet)), said("--json")
    assert "2 rows break the schema" in in_parts[0]
    rows = pd.read_csv(sheet)
    for module in (parts, copying):
        monkeypatch.setattr(module, "PART_ROWS", 2**20)
    assert (said("--quarantine", str(sheet)), said("--json")) == in_parts
    assert sorted(rows["row"]) == sorted(pd.read_csv(sheet)["row"])

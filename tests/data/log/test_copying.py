import pandas as pd
import pytest

from mfcp.data.log import copying, parts
from mfcp.data.log.copying import copy_log
from mfcp.data.log.tables import read_tables, write_tables
from mfcp.errors import DataError


@pytest.fixture
def stored(small_log, tmp_path):
    folder = tmp_path / "log"
    write_tables(small_log(), folder)
    return folder


def copied(source, tmp_path, name="raw"):
    folder = tmp_path / name
    folder.mkdir()
    return copy_log(source, folder, tmp_path / ".parts"), folder


def test_a_log_that_fits_is_written_as_read_and_written(stored, tmp_path):
    rows, folder = copied(stored, tmp_path)
    write_tables(read_tables(stored), tmp_path / "other")
    assert rows == {"tasks": 2, "clusters": 2, "runs": 8}
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["clusters.parquet", "runs.parquet", "tasks.parquet"]
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert not (tmp_path / ".parts").exists()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_runs_beyond_a_part_come_in_parts_that_read_as_one(small_log, tmp_path, monkeypatch, form):
    write_tables(small_log(), tmp_path / "log", format=form)
    monkeypatch.setattr(copying, "PART_ROWS", 3)
    rows, folder = copied(tmp_path / "log", tmp_path)
    assert rows["runs"] == 8
    assert [p.name for p in sorted((folder / "runs").iterdir())] == [f"00000-0000{k}.parquet" for k in range(3)]
    whole, again = read_tables(tmp_path / "log"), read_tables(folder)
    for name, frame in whole.items():
        pd.testing.assert_frame_equal(again[name], frame)


def test_a_folder_of_files_is_a_table(stored, tmp_path):
    whole = pd.read_parquet(stored / "runs.parquet")
    (stored / "runs.parquet").unlink()
    (stored / "runs").mkdir()
    whole.iloc[:5].to_parquet(stored / "runs" / "day-1.parquet")
    whole.iloc[5:].to_csv(stored / "runs" / "day-2.csv", index=False)
    rows, folder = copied(stored, tmp_path)  # in two processes
    assert rows["runs"] == 8
    assert read_tables(folder)["runs"]["run_id"].tolist() == whole["run_id"].tolist()
    assert read_tables(stored)["runs"]["run_id"].tolist() == whole["run_id"].tolist()


def test_two_files_of_a_table_are_refused(stored, tmp_path):
    (stored / "runs").mkdir()
    with pytest.raises(DataError, match=r"runs.parquet and runs both hold table 'runs'"):
        copied(stored, tmp_path)


def test_errors_name_the_part(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "cores", lambda: 1)
    (stored / "runs.parquet").unlink()
    (stored / "runs").mkdir()
    (stored / "runs" / "a.csv").write_text("run_id,task_id,cluster_id,status\nr,a,x,succeeded\n")
    (stored / "runs" / "b.csv").write_text("run_id,task_id\nr,a\n")
    with pytest.raises(DataError, match=r"b\.csv: table 'runs' lacks column cluster_id, status"):
        copied(stored, tmp_path)


def test_what_is_wrong_with_a_header_is_told_where_runs_get_names(stored, tmp_path):
    pd.read_parquet(stored / "runs.parquet").to_csv(stored / "runs.csv", index=False, sep=";")
    (stored / "runs.parquet").unlink()
    with pytest.raises(DataError, match=r"it has task_id;.*; cells are parted by ';': save it with commas"):
        copy_log(stored, tmp_path / "raw", tmp_path / ".parts", name_runs=True)


def test_no_runs_are_refused(stored, tmp_path):
    pd.read_parquet(stored / "runs.parquet").head(0).to_csv(stored / "runs.csv", index=False)
    (stored / "runs.parquet").unlink()
    with pytest.raises(DataError, match="table 'runs' has columns but no rows"):
        copied(stored, tmp_path)


def test_a_table_written_whole_takes_the_place_of_its_parts(small_log, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "0.parquet").touch()
    write_tables(small_log(), tmp_path)
    assert not (tmp_path / "runs").exists()

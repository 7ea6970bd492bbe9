"""Work on parts: once each, in order, and on from where a kill has left it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from mfcp import files
from mfcp.data.log import parts
from mfcp.data.log.parts import Piece, each_once, kept_for_next, link, part_files, pieces
from mfcp.errors import DataError
from mfcp.files import write_json


def noted(item, stem):
    """Work that says that it was done, and fails where it is told to."""
    Path(f"{stem}-{item}.txt").write_text("done")
    with (stem.parent.parent / "calls").open("a") as calls:
        calls.write(f"{item}\n")
    if item == "fails" and not (stem.parent.parent / "mended").exists():
        raise DataError("no")
    return {"item": item, "process": os.getpid()}


def calls(folder):
    return (folder / "calls").read_text().split()


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_what_is_done_is_not_done_again(tmp_path, workers):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "older-done.json").write_text("{}")
    items = [("a",), ("b",), ("fails",), ("d",)]
    with pytest.raises(DataError, match="no"):
        each_once(noted, items, ["0", "1", "2", "3"], folder, workers=workers)
    assert not (folder / "older-done.json").exists()
    first = calls(tmp_path)
    assert first[:2] == ["a", "b"] or set(first) >= {"a", "b"}
    (tmp_path / "mended").touch()
    done = each_once(noted, items, ["0", "1", "2", "3"], folder, workers=workers)
    assert [own["item"] for own in done] == ["a", "b", "fails", "d"]
    again = calls(tmp_path)
    assert again.count("a") == again.count("b") == 1
    if workers > 1:
        assert os.getpid() not in {own["process"] for own in done}


def test_a_folder_stays_after_an_error_and_goes_at_the_end(tmp_path):
    def failing():
        with kept_for_next(tmp_path / "s") as folder:
            (folder / "x").touch()
            raise DataError("no")

    with pytest.raises(DataError, match="no"):
        failing()
    with kept_for_next(tmp_path / "s") as folder:
        assert (folder / "x").exists()
        with pytest.raises(DataError, match="another command works on this log"), kept_for_next(tmp_path / "s"):
            pass
    assert not folder.exists()


def test_a_kill_while_the_folder_goes_leaves_nothing_half_under_its_name(tmp_path, monkeypatch):
    def killed(path, **_):
        (path / "done").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(files.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt), kept_for_next(tmp_path / "s") as folder:  # noqa: PT012
        (folder / "done").touch()
        (folder / "x").touch()
    monkeypatch.undo()
    assert not folder.exists()
    monkeypatch.setattr(files, "_cleared", set())  # as the next process
    with kept_for_next(tmp_path / "s") as folder:
        assert [path.name for path in folder.iterdir()] == [".lock"]
    write_json(tmp_path / "result.json", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def grouped(path, *rows):
    with pyarrow.parquet.ParquetWriter(path, pa.schema([("a", pa.int64())])) as file:
        for count in rows:
            file.write_table(pa.table({"a": [1] * count}), row_group_size=count)
    return path


def test_pieces_are_row_groups_of_some_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    found = pieces(grouped(tmp_path / "runs.parquet", 4, 5, 3, 20, 1))
    assert [piece.groups for piece in found] == [(0, 1), (2,), (3,), (4,)]
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "b.csv").write_text("a\n1\n")
    grouped(tmp_path / "parts" / "a.parquet", 4, 5)
    (tmp_path / "parts" / "_SUCCESS").touch()
    assert [(u.path.name, u.groups) for u in pieces(tmp_path / "parts")] == [("a.parquet", (0, 1)), ("b.csv", None)]


def test_the_stamp_changes_with_the_file(tmp_path):
    path = grouped(tmp_path / "runs.parquet", 4)
    (before,) = pieces(path)
    os.utime(path, ns=(1, 1))
    assert pieces(path) != [before]
    assert isinstance(before, Piece)


def test_strange_and_no_parts_are_named(tmp_path):
    with pytest.raises(DataError, match="no part of the table"):
        part_files(tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"a\.txt: not a part of a table"):
        part_files(tmp_path)


def test_without_links_a_file_is_copied(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    (tmp_path / "a").write_text("x")
    link(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "x"


KILLED = """
import sys
from pathlib import Path
from mfcp.data.log import copying, parts
import os, signal
copying.PART_ROWS = parts.PART_ROWS = 50
parts.cores = lambda: 1
real = copying.write_part
written = []
def write_part(frame, path, key):
    real(frame, path, key)
    written.append(path)
    if len(written) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
copying.write_part = write_part
copying.copy_log(Path("log"), Path("raw"), Path(".parts"))
print(len(written))
"""


def test_a_killed_copy_goes_on_to_the_same_bytes(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    (log / "tasks.csv").write_text("task_id\nt\n")
    (log / "clusters.csv").write_text("cluster_id\nc\n")
    columns = {"run_id": [f"r{k}" for k in range(300)], "task_id": "t", "cluster_id": "c", "status": "succeeded"}
    table = pa.table({name: values if name == "run_id" else [values] * 300 for name, values in columns.items()})
    pyarrow.parquet.write_table(table, log / "runs.parquet", row_group_size=50)

    def copied(kill_at):
        if (tmp_path / "raw").exists():
            subprocess.run(["rm", "-r", tmp_path / "raw"], check=True)
        (tmp_path / "raw").mkdir()
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(kill_at)], cwd=tmp_path, capture_output=True, text=True
        )

    undisturbed = copied(-1)
    assert undisturbed.stdout.split() == ["6"], undisturbed.stderr
    whole = {path.name: path.read_bytes() for path in (tmp_path / "raw" / "runs").iterdir()}
    assert copied(4).returncode == -signal.SIGKILL
    rest = copied(-1)
    assert rest.stdout.split() == ["3"], rest.stderr  # the fourth was written, but not noted
    assert {path.name: path.read_bytes() for path in (tmp_path / "raw" / "runs").iterdir()} == whole
    assert not (tmp_path / ".parts").exists()

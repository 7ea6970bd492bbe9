"""Deliveries that were made to do harm: each is refused with its reason, and the good ones beside it are taken."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from platform_deliveries import Home, log

from mfcp.border.json_text import read_json
from mfcp.platform.state.store import Store

pytestmark = pytest.mark.xdist_group("inbox")


def lines(text: str) -> Callable[[Path], None]:
    return lambda path: path.with_name("tasks-x.jsonl").write_text(text + "\n") and None


def parquet(**columns: object) -> Callable[[Path], None]:
    return lambda path: pyarrow.parquet.write_table(pa.table(columns), path.with_name("tasks-x.parquet"))


def not_utf8() -> pa.Array:
    return pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())


def folder_of_pipe(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "tasks.csv")


def folder_of_links(path: Path) -> None:
    path.mkdir()
    (path / "tasks.csv").symlink_to("/dev/zero")


def many(path: Path) -> None:
    path.mkdir()
    for k in range(1200):
        (path / f"{k}.txt").touch()


def deep(path: Path) -> None:
    """Not as deep as it may be, which pytest could not clear away."""
    below = path.joinpath(*["d"] * 40)
    below.mkdir(parents=True)
    (below / "tasks.csv").write_text("task_id\na\n")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(os.path.relpath(path))


def wide(path: Path) -> None:
    path.with_name("tasks-x.csv").write_text(",".join(["task_id", *(f"c{k}" for k in range(60_000))]) + "\n")


# What is delivered → who makes it at the path `inbox/x`, and the reason.
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "deep JSON": (lines('{"task_id": ' + "[" * 9000 + "]" * 9000 + "}"), "more than 100 deep"),
    "half a character": (lines('{"task_id": "\\ud800"}'), "half a character"),
    "text that is not UTF-8": (parquet(task_id=["a"], model=not_utf8()), "not a whole Parquet file"),
    "a time zone that nobody knows": (
        parquet(task_id=["a"], t=pa.array([0], pa.timestamp("us", tz="No/Where"))),
        "not a whole Parquet file",
    ),
    "times of the year 36,000,000": (
        parquet(task_id=["a"], t=pa.array([2**60], pa.timestamp("ms"))),
        "years 1 to 9999",
    ),
    "a column twice": (
        lambda p: pyarrow.parquet.write_table(
            pa.table([["a"], ["b"]], ["task_id"] * 2), p.with_name("tasks-x.parquet")
        ),
        "column task_id occurs twice",
    ),
    "60,000 columns": (wide, "60001 columns; expected at most 1000"),
    "a named pipe": (lambda p: os.mkfifo(p.with_name("tasks.csv")), "a named pipe; expected a file"),
    "a folder with a named pipe": (folder_of_pipe, "a named pipe; expected a file"),
    "a link to an endless device": (
        lambda p: p.with_name("runs.csv").symlink_to("/dev/zero"),
        "a link; expected a file",
    ),
    "a link out of the inbox": (lambda p: p.symlink_to("/etc"), "a link; expected a file"),
    "a folder of links": (folder_of_links, "a link; expected a file"),
    "a socket": (unix_socket, "a socket; expected a file"),
    "a deep folder": (deep, "more than 16 deep"),
    "1,200 files": (many, "more than 1000 files"),
    "a name that is no text": (
        lambda p: Path(os.fsdecode(b"tasks-\xff\n.csv")).write_text("a\n1\n"),
        "lacks column task_id",
    ),
    "names in a folder that are no text": (
        lambda p: p.mkdir() or (p / os.fsdecode(b"\xff.csv")).write_text("a\n1\n"),
        "not a table of the log schema",
    ),
}
# These have nothing wrong that matters.
TAKEN: dict[str, Callable[[Path], object]] = {
    "a list in an unknown column": lines('{"task_id": "a", "tags": [1, {"b": 2}]}\n{"task_id": "b", "tags": "c"}'),
    "a list in an unknown column of Parquet": parquet(task_id=["a"], tags=[[1, 2]], pairs=[{"a": 1}]),
    "a number of 5,000 digits in an unknown column": lines('{"task_id": "a", "n": 1' + "0" * 5000 + "}"),
    "a number above 64 bits in an unknown column": lines('{"task_id": "a", "n": 36893488147419103232}'),
    "a map in an unknown column": parquet(task_id=["a"], m=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))),
    "damaged metadata of pandas": lambda p: pyarrow.parquet.write_table(
        pa.table({"task_id": ["a"]}).replace_schema_metadata({"pandas": "{"}), p.with_name("tasks-x.parquet")
    ),
    "an unknown column without a name": lines('{"task_id": "a", "": 1, "\\u0000": 2}'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_delivery_is_refused_and_holds_up_none(home: Home, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    make, why = REFUSED[what]
    monkeypatch.chdir(home.path / "inbox")
    make(home.path / "inbox" / "x")
    home.put("zz-good", log())
    statuses = {delivery.name: delivery for delivery in home.ingest()}
    good = statuses.pop("zz-good")
    assert (good.status, good.rows["runs"]) == ("taken", 6)
    (bad,) = statuses.values()
    assert bad.status == "refused"
    assert why in bad.why
    assert bad.name.isprintable()
    assert read_json(home.path / "quarantine" / bad.digest / "reason.json")["reason"] == bad.why
    assert not list((home.path / "inbox").iterdir())
    assert home.ingest() == []


@pytest.mark.parametrize("what", TAKEN)
def test_what_the_schema_does_not_know_does_no_harm(home: Home, what: str) -> None:
    TAKEN[what](home.path / "inbox" / "x")
    home.put("zz-good", log())
    assert {delivery.status for delivery in home.ingest()} == {"taken"}
    assert "a" in set(home.tables()["tasks"]["task_id"])
    home.put("more", log(1))  # the log is read back, and grows
    assert [delivery.status for delivery in home.ingest()] == ["taken"]


@pytest.mark.parametrize("make", [os.mkfifo, folder_of_links, deep])
def test_the_same_again_is_known(home: Home, make: Callable[[Path], None]) -> None:
    for status in ("refused", "known"):
        make(home.path / "inbox" / "runs.csv")
        assert [delivery.status for delivery in home.ingest()] == [status]
    assert not list((home.path / "inbox").iterdir())


def test_unknown_columns_do_not_add_up_beyond_what_is_read(home: Home) -> None:
    found = []
    for k in range(3):
        row = {"task_id": f"t{k}", **{f"own {k} {j}": 1 for j in range(450)}}
        (home.path / "inbox" / "tasks.jsonl").write_text(json.dumps(row) + "\n")
        found += [(delivery.status, delivery.why[:60]) for delivery in home.ingest()]
    assert [status for status, _ in found] == ["taken", "taken", "refused"]
    assert "table 'tasks' of the log would have" in found[2][1]
    home.put("good", log())
    assert [delivery.status for delivery in home.ingest()] == ["taken"]


def test_a_folder_that_cannot_be_looked_into_waits_and_holds_up_none(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path.iterdir

    def closed(path: Path) -> Iterator[Path]:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return own(path)

    home.put("closed", log(1))
    home.put("zz-good", log())
    monkeypatch.setattr(Path, "iterdir", closed)  # root may look into any
    found = {delivery.name: delivery for delivery in home.ingest()}
    assert (found["closed"].status, found["zz-good"].status) == ("waiting", "taken")
    assert found["closed"].why == "closed: cannot be taken now (Permission denied)"
    monkeypatch.undo()
    assert [delivery.status for delivery in home.ingest()] == ["taken"]


def test_a_lack_of_memory_or_space_is_not_the_deliverys_fault(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from mfcp.platform.intake import inbox

    own = inbox.merge

    def short(*args: object) -> object:
        if "x" in args[1]["tasks"]["task_id"].to_list():  # type: ignore[index]
            raise MemoryError
        return own(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(inbox, "merge", short)
    home.put("tasks-x.csv", {"tasks": pd.DataFrame({"task_id": ["x"]})}, "csv")
    home.put("zz-good", log())
    statuses = {delivery.name: delivery.status for delivery in home.ingest()}
    assert statuses == {"tasks-x.csv": "waiting", "zz-good": "taken"}
    monkeypatch.setattr(inbox, "merge", own)
    assert [delivery.status for delivery in home.ingest()] == ["taken"]
    assert np.isin("x", home.tables()["tasks"]["task_id"])
    assert len(Store(f"sqlite:///{home.path}/platform.db").deliveries()) == 2

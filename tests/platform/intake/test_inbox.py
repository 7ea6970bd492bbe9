"""Deliveries become rows of the log, once, whatever is in them and whoever dies meanwhile."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from platform_deliveries import Home, damaged, digest, log, run, table
from running import fork

from mfcp.border.json_text import read_json
from mfcp.data.log import validation
from mfcp.data.log.schema import SCHEMA
from mfcp.platform.state.store import Store

pytestmark = pytest.mark.xdist_group("inbox")


def test_deliveries_become_the_log(home: Home) -> None:
    home.put("first", log(0))
    home.put("second", log(1), "csv")
    assert [(d.name, d.status, d.rows["runs"]) for d in home.ingest()] == [
        ("first", "taken", 6),
        ("second", "taken", 6),
    ]
    assert list(home.tables()["runs"]["task_id"].unique()) == [f"task{k}-{i}" for k in range(2) for i in range(3)]
    assert len(home.tables()["clusters"]) == 2  # both brought them
    assert len(home.tables()["edges"]) == 6  # the same tensor read twice stays twice
    assert home.versions.read_text() == digest(home.log)
    assert not list((home.path / "inbox").iterdir())
    assert sorted(path.name for path in (home.path / "archive").rglob("*") if path.name in ("first", "second"))


def test_files_come_in_the_order_in_which_they_refer_to_each_other(home: Home) -> None:
    for name, frame in log().items():
        home.put(f"{name}-monday.jsonl", {name: frame}, "jsonl")
    assert [d.name.split("-")[0] for d in home.ingest()] == [name for name in SCHEMA if name in log()]
    assert not validation.validate(home.tables(), max_bad_share=0).quarantine.size


@pytest.mark.parametrize("renamed", [False, True])
def test_the_same_delivery_again_changes_no_byte(home: Home, renamed: bool) -> None:
    home.put("tasks.csv", {"tasks": log()["tasks"]}, "csv")
    home.ingest()
    before = digest(home.path / "repo"), (home.log / "tasks.parquet").stat().st_mtime_ns
    home.put("tasks-again.csv" if renamed else "tasks.csv", {"tasks": log()["tasks"]}, "csv")
    assert [d.status for d in home.ingest()] == ["known"]
    assert (digest(home.path / "repo"), (home.log / "tasks.parquet").stat().st_mtime_ns) == before
    assert len(Store(f"sqlite:///{home.path}/platform.db").deliveries()) == 1
    assert not list((home.path / "inbox").iterdir())


def test_a_run_that_was_under_way_ends_with_a_later_delivery(home: Home) -> None:
    tables = log()
    under_way = tables["runs"].copy()
    under_way.loc[0, ["status", "duration_s"]] = ["running", None]
    under_way.loc[1, ["status", "duration_s"]] = ["queued", None]
    home.put("one", {**tables, "runs": under_way})
    home.ingest()
    ended = tables["runs"].iloc[[0]]
    home.put("runs-two.parquet", {"runs": ended})
    home.put("runs-three.csv", {"runs": under_way.iloc[:2]}, "csv")  # comes late
    home.put("runs-two-again.csv", {"runs": ended}, "csv")
    assert [(d.name, d.status, d.rows) for d in home.ingest()] == [
        ("runs-three.csv", "taken", {"runs": 2}),
        ("runs-two-again.csv", "taken", {"runs": 1}),
        ("runs-two.parquet", "taken", {"runs": 1}),
    ]
    runs = home.tables()["runs"]
    assert list(runs["run_id"]) == [*tables["runs"]["run_id"][1:], ended["run_id"][0]]
    assert list(runs["status"]) == ["queued", *["succeeded"] * 5]
    elsewhere = ended.assign(run_id=under_way["run_id"][1])  # of which it is not a later state: another cluster
    home.put("runs-four.csv", {"runs": elsewhere}, "csv")
    assert [(d.status, d.refused) for d in home.ingest()] == [("partly", {"runs": 1})]
    assert list(home.tables()["runs"]["status"]) == ["queued", *["succeeded"] * 5]


def test_bad_rows_go_to_quarantine_with_their_reasons_and_the_rest_into_the_log(home: Home) -> None:
    home.put("first", log(0))
    home.ingest()
    runs = [
        run("good", "task0-0", "a"),
        run("no task", "nowhere", "a"),
        run("slow", "task0-1", "a", "slow"),
        run("task0-0/a", "task0-0", "a", 11.0),
        run("twice", "task0-0", "a", 1.0),
        run("twice", "task0-0", "a", 2.0),
        run("same", "task0-0", "b", 3.0),
        run("same", "task0-0", "b", 3.0),
    ]
    home.put("runs-2.jsonl", {"runs": pd.DataFrame(runs).reindex(columns=log()["runs"].columns)}, "jsonl")
    (delivery,) = home.ingest()
    assert (delivery.status, delivery.rows, delivery.refused) == ("partly", {"runs": 2}, {"runs": 5})
    folder = home.path / "quarantine" / delivery.digest
    refused = pd.read_parquet(folder / "runs.parquet").set_index("run_id")
    assert refused.loc["no task", "reason"].startswith("task_id: expected a valid row of tasks")
    assert refused.loc["slow", "reason"] == "duration_s: expected a number above 0 to 1e+09 s or empty, got 'slow'"
    assert (
        refused.loc["task0-0/a", "reason"] == "run_id: the log holds other content under this key; the first one stays"
    )
    assert refused.loc["twice", "reason"].tolist() == ["run_id: expected occurs once, got 'twice'"] * 2
    assert read_json(folder / "summary.json")["quarantined"] == {"runs": 5}
    stored = home.tables()["runs"].set_index("run_id")
    assert stored.index[-2:].tolist() == ["good", "same"]
    assert stored.loc["task0-0/a", "duration_s"] == 10.0
    notes = Store(f"sqlite:///{home.path}/platform.db").undelivered()
    assert notes[notes["name"] == "ingest.quarantined"]["value"].tolist() == [0.0, 5.0]

    home.put("tasks-late.csv", {"tasks": table("tasks", [{"task_id": "nowhere"}])}, "csv")
    shutil.copy(folder / "runs.parquet", home.path / "inbox" / "runs-mended.parquet")
    assert [(d.status, d.rows) for d in home.ingest()] == [("taken", {"tasks": 1}), ("partly", {"runs": 1})]
    assert home.tables()["runs"]["run_id"].iloc[-1] == "no task"
    assert "reason" not in home.tables()["runs"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("runs-1.parquet", b"PAR1 but torn", "not a whole Parquet file"),
        ("runs-1.csv", b"run_id,task_id\n1,2\n", "lacks column cluster_id"),
        ("jobs.csv", b"id\n1\n", "not a table of the log schema"),
        ("runs.xlsx", b"1", "not a table of the log schema"),
        ("runs-2.jsonl", b"", "empty file"),
    ],
)
def test_what_cannot_be_read_blocks_nothing(home: Home, name: str, content: bytes, why: str) -> None:
    (home.path / "inbox" / name).write_bytes(content)
    home.put("good", log())
    found = {delivery.name: delivery for delivery in home.ingest()}
    assert found["good"].status == "taken"
    refused = found[name]
    assert refused.status == "refused"
    folder = home.path / "quarantine" / refused.digest
    assert why in read_json(folder / "reason.json")["reason"]
    assert (folder / name).read_bytes() == content
    assert not list((home.path / "inbox").iterdir())


def test_what_is_still_being_written_waits(home: Home) -> None:
    inbox = home.path / "inbox"
    for name in (".runs.csv", "runs.csv.part", "runs.csv.tmp", "folder/runs.csv.part", "folder/tasks.csv"):
        (inbox / name).parent.mkdir(exist_ok=True)
        (inbox / name).write_text("half")
    (inbox / "empty").mkdir()
    before = digest(inbox)
    assert home.ingest() == []
    assert digest(inbox) == before
    (inbox / "runs.csv.part").rename(inbox / "runs.csv")
    assert [delivery.name for delivery in home.ingest()] == ["runs.csv"]


def scene(path: Path) -> Home:
    """Deliveries of every kind beside a log that is there already."""
    home = Home(path)
    home.put("before", log(0))
    home.ingest()
    home.put("good", log(1))
    home.put("half", damaged(log(2), "type", 1))
    home.put("again", log(0), "csv")
    (home.path / "inbox" / "runs-torn.parquet").write_bytes(b"PAR1")
    return home


def in_a_child(action: Callable[[], object]) -> int:
    """Exit status of `action` in a forked process, which starts with everything imported."""
    return os.waitpid(fork(action), 0)[1]


def killed_at(step: int, action: Callable[[], object]) -> None:
    """Run `action` and die by SIGKILL before the `step`th thing that it asks of the file system."""
    left = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "sqlite3.connect"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    action()


def end_state(home: Home) -> dict[str, Any]:
    """Everything that must not depend on who died: all files but the database, and what that says."""
    files = {
        str(path.relative_to(home.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.path.rglob("*"))
        if path.is_file() and not path.name.startswith("platform.db")
    }
    store = Store(f"sqlite:///{home.path}/platform.db")
    entered = store.deliveries()[["digest", "name", "status", "rows", "quarantined"]].sort_values("digest")
    notes = store.undelivered()[["kind", "name", "value", "content"]].fillna({"value": -1.0})
    return {"files": files, "deliveries": entered.to_dict("records"), "notes": notes.to_dict("records")}


def test_a_kill_at_any_point_changes_nothing_in_the_end(tmp_path: Path) -> None:
    rng = random.Random(0)
    deaths = 0
    untouched = scene(tmp_path / "template")
    shutil.copytree(untouched.path, tmp_path / "whole")
    whole = Home(tmp_path / "whole")
    whole.ingest()
    expected = end_state(whole)
    assert {row["status"] for row in expected["deliveries"]} == {"taken", "partly", "refused"}
    for trial in range(12):
        shutil.copytree(untouched.path, tmp_path / str(trial))
        home = Home(tmp_path / str(trial))
        for step in (rng.randrange(1, 190), rng.randrange(1, 60)):  # the second kill hits the recovery
            status = in_a_child(partial(killed_at, step, home.ingest))
            deaths += os.WIFSIGNALED(status)
            assert os.WIFSIGNALED(status) or status == 0
        home.ingest()
        assert end_state(home) == expected
    assert deaths >= 12

"""The store: every task assigned once whatever dies, a database that is locked or gone, tables that come back whole."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from platform_stores import pending, some_tasks, url
from running import Forked, alive, forked, until

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import EDGES, NODES
from mfcp.errors import DataError
from mfcp.platform.state.store import Note, Store


def a_graph(name: str, nodes: int) -> dict[str, pd.DataFrame]:
    operators = {
        "graph_id": name, "node_id": range(nodes), "op": "conv", "flops": np.linspace(0, 1e9, nodes) + 1 / 3,
        "bytes_read": np.nan, "bytes_written": 8.0, "output_numel": 2**49 + 1, "param_count": None,
    }  # fmt: skip
    arcs = {"graph_id": name, "src": range(nodes - 1), "dst": range(1, nodes)}
    return {"nodes": coerce(NODES, pd.DataFrame(operators)).frame, "edges": coerce(EDGES, pd.DataFrame(arcs)).frame}


def plan_of(names: list[str], cluster: str = "a") -> pd.DataFrame:
    return pd.DataFrame({"task_id": names, "cluster_id": cluster, "seconds": 1.5, "reliability": 0.9})


def test_tasks_and_graphs_come_back_as_they_were_submitted(store: Store) -> None:
    first = some_tasks(["t1", "t2"], "g") | a_graph("g", 5)
    first["tasks"] = first["tasks"].assign(param_count=pd.array([2**49 + 1, None], "Int64"), flops=[1 / 3, math.nan])
    other = a_graph("unused", 3)
    first |= {name: pd.concat([first[name], other[name]], ignore_index=True) for name in other}
    assert store.submit(first) == 2
    assert store.submit(some_tasks(["t3"], "g") | a_graph("g", 2)) == 1  # a known graph stays as it was
    assert store.submit(some_tasks(["t4"])) == 1

    found = store.pending()
    pd.testing.assert_frame_equal(found["tasks"].iloc[:2], first["tasks"])
    assert list(found["tasks"]["task_id"]) == ["t1", "t2", "t3", "t4"]
    for name, own in a_graph("g", 5).items():
        pd.testing.assert_frame_equal(found[name], own)
    assert list(store.tables(["t4", "t2", "no such"])["tasks"]["task_id"]) == ["t2", "t4"]
    assert store.tables(["t4"])["nodes"].empty


def test_a_task_that_is_known_stays_as_it_was_and_where_it_stood(store: Store) -> None:
    store.submit(some_tasks(["t1", "t2"]))
    changed = some_tasks(["t3", "t1"])
    changed["tasks"]["model"] = "other"
    assert store.submit(changed) == 1
    assert pending(store) == ["t1", "t2", "t3"]
    assert list(store.pending()["tasks"]["model"]) == ["vit", "vit", "other"]
    assert list(store.pending(1, after="t1")["tasks"]["task_id"]) == ["t2"]
    assert store.assign({"version": "v"}, plan_of(["t1"])) is not None
    assert store.submit(some_tasks(["t1"])) == 0  # an assigned task does not come back
    assert pending(store) == ["t2", "t3"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task_id": ["t", "t"]}, "'t' occurs twice"),
        ({"task_id": ["t", None]}, "row 2, task_id: expected text, got nothing"),
        ({"flops": ["many", None]}, "row 1, flops: expected a number .*'many'"),
        ({"batch_size": [1, 0]}, "row 2, batch_size: expected a whole number from 1"),
        ({"samples": [0.0, 1.0]}, "row 1, samples: expected a number above 0"),
    ],
)
def test_bad_tasks_are_refused_at_the_door(store: Store, change: dict[str, Any], message: str) -> None:
    frame = some_tasks(["t1", "t2"])["tasks"].astype(object).assign(**change)
    with pytest.raises(DataError, match=message):
        store.submit({"tasks": frame})
    assert pending(store) == []
    with pytest.raises(DataError, match="lacks column task_id"):
        store.submit({"tasks": frame.drop(columns="task_id")})


def test_a_round_is_written_whole_or_not_at_all(store: Store) -> None:
    store.submit(some_tasks(["t1", "t2", "t3"]))
    note = Note("round.makespan", 2.0)
    row = {"version": "v", "data": {"log": "abc"}, "gap": math.nan, "makespan": 2.0, "tasks": 2}
    assert store.assign(row, plan_of(["t1", "t2"]), [note]) == 1
    assert store.assign(row, plan_of(["t3", "t2"], "b"), [note]) is None  # t2 was assigned meanwhile
    assert store.assign(row, plan_of(["t3", "never submitted"]), [note]) is None
    assert pending(store) == ["t3"]
    assert len(store.undelivered()) == len(store.rounds()) == 1
    assert store.undelivered()["content"][0] == {"round_id": 1}
    (only,) = store.rounds().to_dict("records")
    assert only["data"] == {"log": "abc"}
    assert only["gap"] is None
    assert store.assign(row, plan_of(["t3"]), []) is not None
    assert list(store.assignments()["task_id"]) == ["t1", "t2", "t3"]
    assert list(store.assignments(after=1)["task_id"]) == ["t3"]
    assert list(store.assignments(round_id=1)["cluster_id"]) == ["a", "a"]
    assert store.counts() == {"tasks": 3, "assignments": 3, "rounds": 2, "queue": 0, "set_aside": 0, "outbox": 1}


def test_what_else_a_platform_remembers(store: Store) -> None:
    store.set_online({"a": True, "b": False})
    store.set_online({"a": False, "b": True})
    assert store.offline() == {"a"}

    assert store.add_model("v1", "models/v1", {"excess": math.inf, "n": 3.0}, {"log": "abc"})
    assert not store.add_model("v1", "elsewhere", {}, {})
    (model,) = store.models().to_dict("records")
    assert (model["folder"], model["metrics"], model["data"]) == (
        "models/v1", {"excess": None, "n": 3.0}, {"log": "abc"}
    )  # fmt: skip
    event = Note("model_refused", kind="event", content={"version": "v1"})
    for _ in range(3):
        store.refuse("v1", "damaged", [event])  # news once
    assert list(store.undelivered()["name"]) == ["model_refused"]
    store.crown("v1", "promote", "the first", [Note("champion", 1.0)])
    assert list(store.champions()["version"]) == ["v1"]

    assert store.deliver("d1", "a.zip", "taken", {"runs": 3}, {"runs": 1}, [Note("inbox.rows", 3.0)])
    assert not store.deliver("d1", "copy.zip", "taken", {"runs": 3}, {"runs": 1}, [Note("inbox.rows", 3.0)])
    assert store.deliver("d1", "a.zip", "committed", {"runs": 3}, {"runs": 1})
    (delivery,) = store.deliveries().to_dict("records")
    assert (delivery["status"], delivery["rows"]) == ("committed", {"runs": 3})

    waiting = store.undelivered()
    assert list(waiting["name"]) == ["model_refused", "champion", "inbox.rows"]
    store.mark([int(waiting["id"][0])])
    store.mark([int(waiting["id"][1])], "no answer")
    late = store.undelivered()
    assert list(late["name"]) == ["champion", "inbox.rows"]
    assert list(late["tries"]) == [1, 0]
    assert late["error"][0] == "no answer"


def test_a_clock_that_jumps_back_changes_no_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, now in enumerate([2e9, 1e9, 0.0, -5.0]):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        store.submit(some_tasks([f"t{number}"]))
        store.crown(f"v{number}", "promote", "")
        store.post([Note(f"n{number}", 1.0)])
        store.deliver(f"d{number}", f"f{number}", "taken", {}, {})
    assert pending(store) == ["t0", "t1", "t2", "t3"]
    assert list(store.champions()["version"]) == ["v0", "v1", "v2", "v3"]
    assert list(store.undelivered()["name"]) == ["n0", "n1", "n2", "n3"]
    assert list(store.deliveries()["digest"]) == ["d3", "d2", "d1", "d0"]
    assert [store.assign({}, plan_of([f"t{k}"])) for k in (2, 0)] == [1, 2]
    assert list(store.rounds()["round_id"]) == [2, 1]


class Submissions(RuleBasedStateMachine):
    """Any order of submissions and rounds, some over tasks that are gone, leaves each task in one place."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(url(Path(self.folder.name)), wait_s=5)
        self.submitted: list[str] = []
        self.assigned: dict[str, int] = {}

    @rule(numbers=st.lists(st.integers(0, 12), max_size=5, unique=True))
    def submit(self, numbers: list[int]) -> None:
        names = [f"t{number}" for number in numbers]
        new = [name for name in names if name not in self.submitted]
        assert self.store.submit(some_tasks(names) if names else some_tasks(["x"]) | {"tasks": none()}) == len(new)
        self.submitted += new

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def match(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.submitted), min_size=1, max_size=4, unique=True))
        number = self.store.assign({"version": "v"}, plan_of(chosen))
        assert (number is None) == any(name in self.assigned for name in chosen)
        if number is not None:
            self.assigned |= dict.fromkeys(chosen, number)

    @invariant()
    def every_task_is_in_one_place(self) -> None:
        rows = self.store.assignments()
        assert dict(zip(rows["task_id"], rows["round_id"], strict=True)) == self.assigned
        assert pending(self.store) == [name for name in self.submitted if name not in self.assigned]

    def teardown(self) -> None:
        self.folder.cleanup()


def none() -> pd.DataFrame:
    return some_tasks(["x"])["tasks"].iloc[:0]


Submissions.TestCase.settings = settings(
    max_examples=6, stateful_step_count=8, derandomize=True, suppress_health_check=list(HealthCheck)
)
test_any_order = Submissions.TestCase


def matcher(path: str, number: int) -> AbstractContextManager[Forked]:
    """A process that assigns whatever is pending, a few tasks a round, until it is killed."""

    def assign(tell: Callable[[str], None]) -> None:
        store, draw = Store(path, wait_s=60), random.Random(number)
        tell("ready")
        while True:
            names = list(store.pending(draw.randint(1, 40))["tasks"]["task_id"])
            if names:
                store.assign({"version": str(number)}, pd.DataFrame({"task_id": names, "cluster_id": str(number)}))

    return forked(assign)


@pytest.mark.slow
def test_two_processes_and_a_kill_at_random_points_assign_each_task_once(tmp_path: Path) -> None:
    store, draw = Store(url(tmp_path), wait_s=60), random.Random(0)
    names = [f"t{number}" for number in range(600)]
    kills = 0
    with matcher(url(tmp_path), 0) as steady:
        for start in range(0, len(names), 100):
            store.submit(some_tasks(names[start : start + 100]))
            with matcher(url(tmp_path), 1 + start) as victim:
                assert victim.told.readline() == "ready\n"
                time.sleep(draw.uniform(0.0, 0.05))
                victim.kill()
                kills += 1
        until(lambda: not store.counts()["queue"], "the other process matches what is left", 60)
        assert alive(steady.pid)
    rows = store.assignments()
    assert kills == 6
    assert sorted(rows["task_id"]) == sorted(names)
    assert set(rows["round_id"]) == set(store.rounds()["round_id"])  # no round without its assignments
    with contextlib.closing(sqlite3.connect(tmp_path / "platform.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

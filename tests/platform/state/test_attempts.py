"""The table of attempts, on SQLite and Postgres."""

from __future__ import annotations

import pytest
from attempts_by_hand import assign
from platform_stores import new_database, url

from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store

LIMITS = {"seconds": 60.0, "memory_bytes": None, "cpus": 1, "gpus": 0}


@pytest.fixture(params=["sqlite", "postgres"])
def attempts(request, tmp_path):
    where = url(tmp_path) if request.param == "sqlite" else new_database(request.getfixturevalue("postgres"))
    store = Store(where, wait_s=10)
    assign(store, {"a": ("x", "take 1"), "b": ("x", "take 1"), "c": ("z", "take 1")})
    return Attempts(store)


def planned(attempts):
    found = attempts.assigned(["x"])
    rows = [
        {"task_id": row["task_id"], "cluster_id": row["cluster_id"], "number": 1, "seconds": row["seconds"],
         "limits": LIMITS, "command": "true", "state": "planned", "status": None, "why": None}
        for row in found
    ]  # fmt: skip
    return rows, attempts.plan(rows)


def test_its_name_is_made_once(attempts):
    assert attempts.identity() == attempts.identity()
    assert len(attempts.identity()) == 8


def test_an_attempt_is_planned_named_handed_in_begun_and_ended_once(attempts):
    rows, new = planned(attempts)
    assert [row["task_id"] for row in rows] == ["a", "b"]
    assert (new, attempts.plan(rows), attempts.assigned(["x"])) == (2, 0, [])
    first, second = (row["id"] for row in attempts.open())
    assert attempts.intend([first, second], "mfcp-1")
    assert not attempts.intend([second, first], "mfcp-2")  # somebody else was first
    assert [(row["batch"], row["place"]) for row in attempts.of_batch("mfcp-1")] == [("mfcp-1", 0), ("mfcp-1", 1)]
    attempts.hand("mfcp-1", "7")
    attempts.begin({first: 5.0})
    again = {"task_id": "a", "number": 2, "cluster_id": "y", "seconds": 2.0, "limits": LIMITS, "command": "true"}
    end = {"status": "failed", "why": "exit code 1", "receipt": {"wall_s": 1.0}}
    assert attempts.finish(first, end, again)
    assert not attempts.finish(first, {**end, "status": "succeeded"}, again)
    assert [(row["number"], row["state"], row["status"]) for row in attempts.of(["a"])] == [
        (1, "over", "failed"), (2, "planned", None),
    ]  # fmt: skip
    attempts.begin({first: 9.0})  # one that is over stays over
    assert attempts.of(["a"])[0]["begun_at"] == 5.0


def test_a_delivery_keeps_its_content_until_it_is_written(attempts):
    planned(attempts)
    first, second = (row["id"] for row in attempts.open())
    attempts.intend([first, second], "mfcp-1")
    end = {"status": "succeeded", "why": "", "receipt": {}}
    attempts.begin({first: 5.0})
    attempts.finish(first, end, None)
    number, rows = attempts.undelivered()
    attempts.begin({second: 6.0})
    attempts.finish(second, end, None)
    assert attempts.undelivered() == (number, rows)
    attempts.deliver(number)
    later, others = attempts.undelivered()
    assert ([row["id"] for row in others], later) == ([second], number + 1)
    attempts.deliver(later)
    assert attempts.undelivered()[1] == []


def test_cancelled_tasks_are_known_as_such(attempts):
    planned(attempts)
    assert (attempts.cancel(["a", "nobody"]), attempts.cancel(["a"])) == (1, 0)
    assert [(row["task_id"], bool(row["cancelled"])) for row in attempts.open()] == [("a", True), ("b", False)]
    assert attempts.cancel(["c"]) == 1
    assert attempts.assigned(["z"]) == []


def test_health_is_news_when_it_changes(attempts):
    store = attempts
    assert not store.report("x", up=True, why="", backlog_s=3.0)
    assert store.report("x", up=False, why="away", backlog_s=None)
    assert not store.report("x", up=False, why="away", backlog_s=None)
    assert [(row["cluster_id"], row["up"], row["backlog_s"]) for row in store.health()] == [("x", False, 3.0)]
    assert store.report("x", up=True, why="", backlog_s=0.0)
    assert store.report("y", up=False, why="drained", backlog_s=0.0)  # the first that is heard of it

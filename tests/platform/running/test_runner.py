"""Plans into runs: each attempt starts once and each task is done once, wherever the runner is killed."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from attempts_by_hand import assign, new_store, runner

from mfcp.border.json_text import read_json
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA, TASKS
from mfcp.data.log.tables import find_table, read_table
from mfcp.executors.base import JobSeen, UnreachableError
from mfcp.executors.simulated import Simulated
from mfcp.platform.running import judging
from mfcp.platform.running import runner as runner_module
from mfcp.platform.state.attempts import Attempts

POINTS = [
    *((Attempts, name) for name in ("plan", "intend", "hand", "begin", "fence", "finish", "undelivered", "deliver")),
    *((Simulated, name) for name in ("submit", "release", "watch", "cancel", "collect", "health")),
    (runner_module, "deliver_runs"),
]
SPEED = 40.0
ENDS = {"a": "take 1", "b": "take 2", "c": "take 1 failed", "d": "take 99", "e": "take 1 oom", "f": "take 1 node_fail"}


class KilledError(BaseException):
    """Stands in for kill -9 between two operations: nothing after it happens."""


@pytest.fixture
def clusters(tmp_path):
    return {name: {"kind": "simulated", "folder": str(tmp_path / name), "slots": 2, "speed": SPEED} for name in "xy"}


def until_done(make, limit=60.0):
    """Steps of a runner, made again after each kill, until nothing is open and all is delivered."""
    kills, one, quiet, begin = 0, None, 0, time.monotonic()
    while quiet < 3:
        assert time.monotonic() - begin < limit, "the runner does not come to an end"
        try:
            one = one or make()
            quiet = quiet + 1 if one.step().idle else 0
        except KilledError:
            one, kills, quiet = None, kills + 1, 0
        time.sleep(0.02)
    return kills


def killed_at(monkeypatch, where, number, moment):
    """Raise KilledError before or after the so-manieth call of a function, once."""
    owner, name = where
    whole, count = getattr(owner, name), Counter()

    def wrapped(*args, **kwargs):
        count["calls"] += 1
        if count["calls"] == number and moment == "before":
            raise KilledError
        result = whole(*args, **kwargs)
        if count["calls"] == number and moment == "after":
            raise KilledError
        return result

    monkeypatch.setattr(owner, name, wrapped)


def check(home, store, tasks=ENDS):
    """Each task ends once, or was tried as often as may be; every run that began is delivered once."""
    rows = Attempts(store).of()
    assert {row["state"] for row in rows} == {"over"}
    by_task = {task: [row for row in rows if row["task_id"] == task] for task in tasks}
    for task, own in by_task.items():
        assert [row["number"] for row in own] == list(range(1, len(own) + 1))
        good = [row for row in own if row["status"] == "succeeded"]
        assert len(good) == (len(tasks[task].split()) == 2 and "99" not in tasks[task]), (task, own)
        assert not good or good == own[-1:]
        if not good:
            assert sum(row["status"] != "lost" for row in own) == 3
    batches = {(row["batch"], row["place"]) for row in rows}
    assert len(batches) == len(rows)
    runs = [run for folder in sorted((home / "inbox").iterdir()) for run in told(folder, "runs").to_dict("records")]
    assert sorted(run["run_id"] for run in runs) == sorted(
        f"{row['batch']}.{row['place']}" for row in rows if row["begun_at"] is not None
    )
    return by_task, runs


def told(folder, name):
    """A table of a delivery."""
    return read_table(find_table(folder, name), SCHEMA[name])


def test_tasks_run_are_tried_again_elsewhere_and_come_back(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {task: ("xy"[n % 2], command) for n, (task, command) in enumerate(ENDS.items())})
    until_done(lambda: runner(home, clusters, seconds=4.0, books_s=0.0))
    by_task, runs = check(home, store)
    statuses = {task: [row["status"] for row in own] for task, own in by_task.items()}
    assert statuses == {
        "a": ["succeeded"],
        "b": ["succeeded"],
        "c": ["failed"] * 3,
        "d": ["timeout"] * 3,
        "e": ["oom"] * 3,
        "f": ["node_fail"] * 3,
    }
    assert [row["cluster_id"] for row in by_task["c"]] == ["x", "y", "x"]
    assert {run["task_id"]: run["duration_s"] for run in runs if run["status"] == "succeeded"} == pytest.approx(
        {"a": 1.0, "b": 2.0}
    )
    assert {(run["cluster_id"], run["attempt"]) for run in runs if run["task_id"] == "c"} == {
        ("x", 1),
        ("y", 1),
        ("x", 2),
    }


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("where", POINTS, ids=lambda where: where[1])
def test_a_kill_at_any_point_changes_nothing(tmp_path, clusters, monkeypatch, where, moment):
    home = tmp_path / "home"
    store = new_store(home)
    plan = {task: ENDS[task] for task in "abf"}
    assign(store, {task: ("xy"[n % 2], command) for n, (task, command) in enumerate(plan.items())})
    killed_at(monkeypatch, where, 1, moment)
    kills = until_done(lambda: runner(home, clusters, seconds=4.0, books_s=0.0, retry={"times": 0}))
    assert kills == 1, "the point is not on the way"
    rows = Attempts(store).of()
    assert {row["task_id"]: row["status"] for row in rows} == {"a": "succeeded", "b": "succeeded", "f": "node_fail"}
    jobs = {**submitted(clusters["x"]), **submitted(clusters["y"])}
    assert len(jobs) == 3
    runs = [run for folder in sorted((home / "inbox").iterdir()) for run in told(folder, "runs").to_dict("records")]
    assert sorted(run["task_id"] for run in runs) == ["a", "b", "f"]


def submitted(cluster):
    path = Path(cluster["folder"]) / "jobs.json"
    return read_json(path)["jobs"] if path.exists() else {}


def test_two_runners_at_once_do_what_one_does(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {task: ("xy"[n % 2], command) for n, (task, command) in enumerate(ENDS.items())})
    other = runner(home, clusters, seconds=4.0, books_s=0.0)

    class Both:
        def __init__(self):
            self.one = runner(home, clusters, seconds=4.0, books_s=0.0)

        def step(self):
            other.step()
            return self.one.step()

    until_done(Both)
    check(home, store)


def test_a_silent_cluster_goes_offline_and_comes_back(tmp_path, clusters, monkeypatch):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 40"), "b": ("y", "take 1")})
    one, whole = runner(home, clusters), Simulated.watch
    away = {"x"}

    def watch(self, keys, owner=""):
        if self.folder[-1] in away:
            raise UnreachableError("no route to host")
        return whole(self, keys, owner)

    monkeypatch.setattr(Simulated, "watch", watch)
    step = one.step()
    assert step.silent == {"x": "no route to host"}
    assert store.offline() == {"x"}
    for _ in range(5):
        one.step()
    assert [row["state"] for row in Attempts(store).of(["a"])] == ["planned"]  # nothing was decided about it
    away.clear()
    one.step()
    assert store.offline() == frozenset()
    assert list(store.events("cluster_down")["content"]) == [{"cluster_id": "x", "why": "no route to host"}]
    assert len(store.events("cluster_up")) == 1
    (tmp_path / "y" / "down").write_text("drained: new cooling")
    one.step()
    assert store.offline() == {"y"}


def test_jobs_of_attempts_that_are_over_leave_the_queue(tmp_path, clusters, monkeypatch):
    """A scheduler that lost a step daemon believes them alive, and keeps their places."""
    home = tmp_path / "home"
    new_store(home)
    one, whole, dropped = runner(home, clusters), Simulated.watch, []  # nothing is open
    stale = f"mfcp-{one.name}-99.0"

    def watch(self, keys, owner=""):
        assert owner == f"mfcp-{one.name}-"
        return whole(self, keys, owner) | {stale: JobSeen("running", ("7",))}

    monkeypatch.setattr(Simulated, "watch", watch)
    monkeypatch.setattr(Simulated, "drop", lambda self, jobs: dropped.append(dict(jobs)))
    monkeypatch.setattr(runner_module, "LEFT_S", 0.2)
    one.step()
    one.step()
    assert dropped == []
    time.sleep(0.3)
    one.step()
    assert dropped == [{stale: ("7",)}] * 2  # each cluster of the two tells of it


def test_what_runs_goes_on_while_its_cluster_takes_nothing(tmp_path, clusters, monkeypatch):
    """One that is drained answers, lets its jobs end, and refuses new ones for now."""
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 4")})
    one = runner(home, clusters)
    one.step()
    assign(store, {"b": ("x", "take 1")})
    whole = Simulated.submit

    def drained(self, batch):
        raise UnreachableError("drained")

    monkeypatch.setattr(Simulated, "submit", drained)
    monkeypatch.setattr(Simulated, "outlives", 0.0)
    ends = []
    for _ in range(20):
        ends.append(one.step().over)
        time.sleep(0.02)
    assert sum(ends) == 1
    assert [row["state"] for row in Attempts(store).of(["b"])] == ["planned"]  # it waits, and is not given up
    monkeypatch.setattr(Simulated, "submit", whole)
    until_done(lambda: runner(home, clusters))
    assert [row["status"] for row in Attempts(store).of()] == ["succeeded", "succeeded"]


def test_what_waits_on_a_drained_cluster_goes_elsewhere(tmp_path, clusters):
    """What runs there goes on; where no other cluster takes jobs, what waits stays."""
    home = tmp_path / "home"
    store = new_store(home)
    attempts = Attempts(store)
    plan = {"a": ("x", "take 60"), "b": ("x", "take 60"), "c": ("x", "take 1")}  # two slots: c waits
    assign(store, plan)
    make = lambda: runner(home, clusters, move_s=0.1)  # noqa: E731 - a new one each time, as after a kill
    make().step()
    for name in "xy":
        (tmp_path / name / "down").parent.mkdir(exist_ok=True)
        (tmp_path / name / "down").write_text("drained: new cooling")
    assign(store, {"d": ("x", "take 1")})  # not handed in yet
    make().step()
    time.sleep(0.2)
    make().step()
    assert [row["fenced_at"] for row in attempts.of()] == [None] * 4
    (tmp_path / "y" / "down").unlink()
    until_done(make)
    ends = {task: [(row["cluster_id"], row["status"]) for row in attempts.of([task])] for task in "abcd"}
    moved = [("x", "lost"), ("y", "succeeded")]
    assert ends == {"a": [("x", "succeeded")], "b": [("x", "succeeded")], "c": moved, "d": moved}
    lost = [row for row in attempts.of() if row["status"] == "lost"]
    assert {row["why"] for row in lost} == {"x took no jobs: drained: new cooling"}
    assert set(attempts.outages()) == {"x"}


def test_what_was_given_up_ends_although_its_cluster_was_not_reached_then(tmp_path, clusters, monkeypatch):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 60"), "b": ("x", "take 60"), "c": ("x", "take 1")})
    make = lambda: runner(home, clusters, move_s=0.0)  # noqa: E731
    make().step()
    (tmp_path / "x" / "down").write_text("drained")
    whole, refused = Simulated.cancel, []

    def cancel(self, jobs):
        if not refused:
            refused.append(jobs)
            raise UnreachableError("no route to host")
        return whole(self, jobs)

    monkeypatch.setattr(Simulated, "cancel", cancel)
    monkeypatch.setattr(judging, "AGAIN_S", 0.1)
    until_done(make)
    assert len(refused) == 1
    ends = [(row["cluster_id"], row["status"]) for row in Attempts(store).of(["c"])]
    assert ends == [("x", "lost"), ("y", "succeeded")]
    assert sum("take 1 " in job["command"] for job in submitted(clusters["x"]).values()) == 1


def test_runs_on_clusters_of_ones_choice_are_planned_again_only_where_they_never_began(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    attempts = Attempts(store)
    for name in "ab":
        row = {column.name: None for column in TASKS.columns} | {"task_id": name, "model": "1", "family": "succeeded"}
        store.submit({"tasks": coerce(TASKS, pd.DataFrame([row], dtype=object)).frame})
    pairs = [(task, cluster) for task in "ab" for cluster in "xy"]
    make = lambda: runner(home, clusters, move_s=0.1, retry={"times": 0})  # noqa: E731
    assign(store, {"p": ("x", "take 60"), "q": ("x", "take 60")})  # both slots: whatever else is sent there waits
    make().step()
    assert [make().plan(pairs), make().plan(pairs)] == [4, 0]  # the second call goes on with the first
    (tmp_path / "x" / "down").write_text("drained: new cooling")
    until_done(make)
    assert Counter((row["cluster_id"], row["status"]) for row in attempts.of("ab")) == {
        ("x", "lost"): 2, ("y", "succeeded"): 2
    }  # fmt: skip
    (tmp_path / "x" / "down").unlink()
    assert make().plan(pairs) == 2
    until_done(make)
    assert Counter((row["cluster_id"], row["status"]) for row in attempts.of("ab")) == {
        ("x", "lost"): 2, ("x", "succeeded"): 2, ("y", "succeeded"): 2
    }  # fmt: skip
    assert sorted(row["number"] for row in attempts.of(["a"])) == [1, 2, 3]
    assert make().plan(pairs) == 0


def test_a_share_of_tasks_runs_on_a_second_cluster(tmp_path, clusters):
    """After the first run is done, never beside it; the log has a time of both."""
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 1"), "b": ("y", "take 1"), "c": ("x", "take 1 failed")})
    until_done(lambda: runner(home, clusters, compare=1.0, retry={"times": 1}))
    rows = Attempts(store).of()
    assert Counter((row["task_id"], row["cluster_id"], row["status"]) for row in rows) == {
        (task, cluster, "failed" if task == "c" else "succeeded"): 1 for task in "abc" for cluster in "xy"
    }
    for task in "ab":
        first, second = (row for row in rows if row["task_id"] == task)
        assert first["ended_at"] <= second["planned_at"]
    runs = [run for folder in sorted((home / "inbox").iterdir()) for run in told(folder, "runs").to_dict("records")]
    assert Counter(run["task_id"] for run in runs if run["status"] == "succeeded") == {"a": 2, "b": 2}


def test_a_queue_is_a_backlog_of_its_cluster(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {f"t{n}": ("x", "take 400") for n in range(5)})
    one = runner(home, clusters)
    one.step()
    one.step()
    assert store.backlogs() == {"x": pytest.approx(5 * 2.0, abs=0.5)}  # predicted: 2 s each


def test_cancelled_tasks_end_and_are_not_tried_again(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 90"), "b": ("x", "take 90"), "c": ("x", "take 90"), "d": ("y", "take 1")})
    attempts = Attempts(store)
    assert attempts.cancel(["c", "unknown"]) == 1
    one = runner(home, clusters)
    one.step()  # a and b run, and with two slots c would wait
    time.sleep(0.1)
    one.step()
    assert attempts.cancel(["a", "b", "c"]) == 2
    until_done(lambda: runner(home, clusters))
    assert {row["task_id"]: row["status"] for row in attempts.of()} == {
        "a": "cancelled",
        "b": "cancelled",
        "d": "succeeded",
    }


def test_a_task_without_a_command_is_told(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 1")})
    until_done(lambda: runner(home, clusters, command="train {batch_size}"))
    (row,) = Attempts(store).of()
    assert (row["state"], row["status"]) == ("over", "failed")
    assert "needs batch_size" in row["why"]
    assert not (home / "inbox").exists()


def test_limits_of_a_task_come_before_the_settings(tmp_path, clusters):
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 3"), "b": ("x", "take 3")}, limits={"a": {"seconds": 1.0}})
    until_done(lambda: runner(home, clusters, seconds=9.0, retry={"times": 0}))
    assert {row["task_id"]: row["status"] for row in Attempts(store).of()} == {"a": "timeout", "b": "succeeded"}


def test_deliveries_are_rows_of_the_log(tmp_path, clusters):
    """What comes back is what ingestion takes."""
    home = tmp_path / "home"
    store = new_store(home)
    assign(store, {"a": ("x", "take 1"), "b": ("y", "take 1 failed")})
    until_done(lambda: runner(home, clusters, retry={"times": 0}))
    (folder,) = (home / "inbox").iterdir()
    tables = {name: told(folder, name) for name in ("tasks", "runs")}
    assert list(tables["runs"]["status"]) == ["succeeded", "failed"]
    assert set(tables["runs"]["cluster_id"]) == {"x", "y"}
    assert tables["runs"]["started_at"].notna().all()

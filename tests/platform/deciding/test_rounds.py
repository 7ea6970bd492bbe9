"""Rounds: each pending task assigned once, by the champion, whatever else goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from platform_log import CLUSTERS, as_table, chain, small_log
from running import forked, until

from mfcp.data.log.tables import Tables
from mfcp.errors import DataError, SettingsError
from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Store
from mfcp.release.decision import decide


@pytest.fixture
def models(home: Path, store: Store, good: Path) -> Models:
    models = Models(home, store)
    models.add(good, {})
    return models


def new_tasks(count: int, start: int = 0) -> Tables:
    """Tasks that were never seen."""
    tables = small_log(count, seed=77 + start, start=1000 + start)
    return {name: tables[name] for name in ("tasks", "nodes", "edges")}


def test_a_round_writes_what_the_champion_decides(models: Models, store: Store) -> None:
    tables = new_tasks(12)
    store.submit(tables)
    report = match_round(store, models, MatchSettings())
    champion = models.champion()
    assert champion is not None
    expected = decide(champion, tables)
    rows = store.assignments(round_id=1)
    assert tuple(rows["task_id"]) == expected.task_id
    assert tuple(rows["cluster_id"]) == expected.cluster_id
    for name, values in expected.chosen().items():
        assert rows[name].to_numpy() == pytest.approx(values)
    (row,) = store.rounds().to_dict("records")
    assert (row["version"], row["tasks"], row["status"]) == (champion.version, 12, expected.status)
    assert row["data"] == champion.data | {"not_measured": []}
    assert row["makespan"] == pytest.approx(expected.makespan) == pytest.approx(report.makespan)
    assert row["lower_bound"] == pytest.approx(expected.lower_bound)
    assert (report.round_id, report.tasks, report.waiting) == (1, 12, 0)
    notes = store.undelivered().set_index("name")
    assert notes.loc["round.tasks", "value"] == 12.0
    assert notes.loc["round.makespan", "content"] == {"round_id": 1}
    assert str(report).startswith(f"round 1: 12 tasks by release {champion.version} (log of ")
    assert match_round(store, models, MatchSettings()).status == "idle"


def test_first_come_first_matched_a_round_at_a_time(models: Models, store: Store) -> None:
    store.submit(new_tasks(7))
    settings = MatchSettings(tasks=3, gamma=0.5)
    reports = [match_round(store, models, settings) for _ in range(4)]
    assert [(r.tasks, r.waiting) for r in reports] == [(3, 4), (3, 1), (1, 0), (0, 0)]
    assert list(store.rounds()["gamma"]) == [0.5, 0.5, 0.5]
    assert list(store.assignments()["task_id"]) == list(new_tasks(7)["tasks"]["task_id"])


def test_tasks_wait_while_nothing_can_be_decided(home: Path, store: Store, good: Path) -> None:
    models = Models(home, store)
    store.submit(new_tasks(4))
    report = match_round(store, models, MatchSettings())
    assert (report.status, report.waiting, str(report)) == ("no_champion", 4, "no round (no_champion), 4 tasks wait")
    models.add(good, {})
    store.set_online(dict.fromkeys(CLUSTERS, False))
    assert match_round(store, models, MatchSettings()).status == "no_cluster"
    store.set_online({"b": True})
    assert match_round(store, models, MatchSettings()).tasks == 4
    assert set(store.assignments()["cluster_id"]) == {"b"}


def test_tasks_that_cannot_be_predicted_are_set_aside_and_the_others_matched(models: Models, store: Store) -> None:
    tables = new_tasks(9)
    broken = chain("broken", 4)
    broken["edges"].append({"graph_id": "broken", "src": 3, "dst": 0})
    tables |= {name: pd.concat([tables[name], as_table(name, rows)]) for name, rows in broken.items()}
    tables["tasks"].loc[[2, 7], "graph_id"] = "broken"
    store.submit(tables)
    report = match_round(store, models, MatchSettings())
    assert (report.tasks, report.set_aside, report.waiting) == (7, 2, 0)
    assert store.counts()["set_aside"] == 2
    events = [
        c
        for n, c in zip(store.undelivered()["name"], store.undelivered()["content"], strict=True)
        if n == "task_set_aside"
    ]
    assert [event["task_id"] for event in events] == list(tables["tasks"]["task_id"][[2, 7]])
    assert "graph 'broken' has a cycle" in events[0]["why"]
    assert not set(store.assignments()["task_id"]) & {event["task_id"] for event in events}


def test_settings_that_are_wrong_set_nothing_aside(models: Models, store: Store) -> None:
    store.submit(new_tasks(3))
    with pytest.raises((SettingsError, DataError)):
        match_round(store, models, MatchSettings(engine="no such engine"))
    assert store.counts()["queue"] == 3


def test_a_round_that_loses_tasks_to_another_process_goes_on_with_the_rest(
    models: Models, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = new_tasks(6)
    store.submit(tables)
    other = Store(f"sqlite:///{models.folder.parent}/platform.db")
    whole = store.assign

    def late(*rows):  # the other one is quicker by a moment
        monkeypatch.setattr(store, "assign", whole)
        names = tables["tasks"]["task_id"][[1, 4]]
        assert other.assign({}, pd.DataFrame({"task_id": names, "cluster_id": "a"})) == 1
        return whole(*rows)

    monkeypatch.setattr(store, "assign", late)
    report = match_round(store, models, MatchSettings())
    assert (report.tasks, report.waiting) == (4, 0)
    rows = store.assignments()
    assert sorted(rows["task_id"]) == sorted(tables["tasks"]["task_id"])
    assert len(store.rounds()) == 2


@pytest.mark.slow
def test_rounds_killed_at_random_points_lose_no_task_and_repeat_none(models: Models, store: Store, home: Path) -> None:
    def match(tell: Callable[[str], None]) -> None:
        own = Store(f"sqlite:///{home}/platform.db", wait_s=60)
        champion = Models(home, own)
        tell("ready")
        while True:
            match_round(own, champion, MatchSettings(tasks=5))

    draw, submitted = random.Random(0), 0
    for _ in range(4):
        store.submit(new_tasks(25, start=submitted))
        submitted += 25
        before = len(store.rounds())
        with forked(match) as process:
            assert process.told.readline() == "ready\n"
            until(lambda before=before: len(store.rounds()) > before, "a round is written", 60)
            time.sleep(draw.uniform(0.0, 0.15))
            process.kill()
    while match_round(store, models, MatchSettings(tasks=50)).tasks:
        pass
    rows = store.assignments()
    assert sorted(rows["task_id"]) == sorted(f"task{1000 + j}" for j in range(submitted))
    assert store.rounds().set_index("round_id")["tasks"].to_dict() == rows.groupby("round_id").size().to_dict()

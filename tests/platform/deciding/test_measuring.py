"""A round asks for steps while they are worth it, waits no longer than agreed, and loses nothing when it is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from platform_log import small_log, small_release
from running import forked, until

from mfcp.data.log.tables import Tables
from mfcp.platform.deciding.finished import measured_steps
from mfcp.platform.deciding.measuring import MeasureSettings
from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Store

FREE = {"worth": 0.0, "start_s": 0.0, "steps": 1}


@pytest.fixture(scope="session")
def unsure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a release that learned from few tasks, so that there is something to measure."""
    folder = tmp_path_factory.mktemp("release") / "unsure"
    small_release(folder, small_log(16, runs=2))
    return folder


@pytest.fixture
def models(home: Path, store: Store, unsure: Path) -> Models:
    models = Models(home, store)
    models.add(unsure, {})
    return models


def settings(cells: int = 3, wait_s: float = 60.0, **changes: float) -> MatchSettings:
    return MatchSettings(measure=MeasureSettings(cells=cells, wait_s=wait_s, **{**FREE, **changes}))


def new_tasks(count: int = 5, start: int = 0) -> Tables:
    tables = small_log(count, seed=77 + start, start=1000 + start)
    return {name: tables[name] for name in ("tasks", "nodes", "edges")}


def answer_all(store: Store, seconds: float = 0.05) -> None:
    for number in store.measurements(open_only=True)["id"]:
        assert store.answer(int(number), step_time_s=seconds)


def test_it_asks_waits_for_the_answers_and_decides_by_them(models: Models, store: Store) -> None:
    store.submit(new_tasks())
    first = match_round(store, models, settings())
    assert (first.status, first.tasks, first.waiting) == ("measuring", 0, 5)
    asked = store.measurements()
    assert first.measuring == len(asked) == asked["task_id"].nunique() > 0
    assert (asked["saves_s"] > asked["takes_s"]).all()
    assert f"measuring {len(asked)} cells" in str(first)
    assert match_round(store, models, settings()).measuring == len(asked)  # it goes on waiting, and asks for no more
    assert len(store.measurements()) == len(asked)
    for _ in range(4):
        answer_all(store)
        if (report := match_round(store, models, settings())).status != "measuring":
            break
    assert report.tasks == 5
    assert 0 < report.observed == (store.measurements()["status"] == "measured").sum() <= 3
    notes = store.undelivered()
    assert (notes["name"] == "measure.saves_s").sum() == len(store.measurements())
    assert (notes["name"] == "measure.step_time_s").sum() == report.observed
    champion = models.champion()
    assert champion is not None
    (row,) = store.rounds().to_dict("records")
    seen = measured_steps(store, champion, new_tasks(), row["data"]["observed"])
    assert seen is not None
    assert sorted(seen.run_id) == sorted(row["data"]["observed"])


def test_it_waits_no_longer_than_agreed_and_decides_with_what_has_come(models: Models, store: Store) -> None:
    store.submit(new_tasks())
    asked = match_round(store, models, settings(wait_s=60)).measuring
    assert asked > 1
    (one, *_) = store.measurements()["id"]
    assert store.answer(int(one), step_time_s=0.05)
    assert match_round(store, models, settings(wait_s=60)).status == "measuring"  # however busy the machine is
    time.sleep(0.4)
    report = match_round(store, models, settings(wait_s=0.4))
    assert (report.tasks, report.observed) == (5, 1)
    assert store.measurements(open_only=True).empty  # nobody needs to measure what is decided


def test_tasks_that_come_later_do_not_make_it_wait_again(models: Models, store: Store) -> None:
    store.submit(new_tasks())
    match_round(store, models, settings(wait_s=0.3))
    time.sleep(0.3)
    store.submit(new_tasks(3, start=50))
    assert match_round(store, models, settings(wait_s=0.3)).tasks == 8


def test_what_cannot_be_measured_is_not_asked_for_again(models: Models, store: Store) -> None:
    store.submit(new_tasks())
    match_round(store, models, settings(cells=6))
    first = store.measurements()
    for number in first["id"]:
        assert store.answer(int(number), error="out of memory")
        assert not store.answer(int(number), step_time_s=1.0)  # the first word stands
    match_round(store, models, settings(cells=6))
    cells = store.measurements()[["task_id", "cluster_id"]]
    assert not cells.duplicated().any()
    assert (store.measurements()["status"] == "failed").sum() == len(first)


def test_dear_measurements_and_none_allowed_are_no_reason_to_wait(models: Models, store: Store) -> None:
    store.submit(new_tasks())
    assert match_round(store, models, settings(start_s=1e9)).tasks == 5
    store.submit(new_tasks(start=50))
    assert match_round(store, models, settings(cells=0)).tasks == 5
    assert store.measurements().empty


def test_a_round_of_many_tasks_is_decided_at_once(models: Models, store: Store) -> None:
    store.submit(new_tasks())
    assert match_round(store, models, settings(tasks=4)).tasks == 5
    assert store.measurements().empty


@pytest.mark.slow
def test_a_round_killed_between_measuring_and_deciding_goes_on_where_it_was(
    models: Models, store: Store, home: Path
) -> None:
    """At random points after it has asked: no cell is asked for twice, no answer lost, each task assigned once."""

    def match(tell: Callable[[str], None]) -> None:
        own = Store(f"sqlite:///{home}/platform.db", wait_s=60)
        tell("ready")
        while True:
            match_round(own, Models(home, own), settings())

    draw, submitted = random.Random(0), 0
    for _ in range(3):
        store.submit(new_tasks(5, start=submitted))
        submitted += 5
        before = len(store.measurements())
        with forked(match) as process:
            assert process.told.readline() == "ready\n"
            until(lambda before=before: len(store.measurements()) > before, "steps are asked for", 60)
            time.sleep(draw.uniform(0.0, 0.1))
            process.kill()
        answered = int((store.measurements()["status"] == "measured").sum())
        answer_all(store)
        assert (store.measurements()["status"] == "measured").sum() > answered
        report = match_round(store, models, settings())
        while report.status == "measuring":
            answer_all(store)
            report = match_round(store, models, settings())
    rows = store.assignments()
    assert sorted(rows["task_id"]) == sorted(f"task{1000 + j}" for j in range(submitted))
    cells = store.measurements()
    assert not cells.duplicated(["task_id", "cluster_id"]).any()
    used = [name for data in store.rounds()["data"] for name in data.get("observed", [])]
    answered_ids = [f"measured-{number}" for number in cells[cells["status"] == "measured"]["id"]]
    assert sorted(used) == sorted(answered_ids)

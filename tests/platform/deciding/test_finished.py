"""Finished runs of the log: those of tasks that the champion has not learned count, and no round waits for them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log

from mfcp.data.log.tables import Tables, write_tables
from mfcp.errors import DataError
from mfcp.platform.deciding.finished import NEWEST, finished_runs
from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Store
from mfcp.release.model import Release


@pytest.fixture
def models(home: Path, store: Store, good: Path) -> Models:
    models = Models(home, store)
    models.add(good, {})
    return models


@pytest.fixture
def champion(models: Models) -> Release:
    release = models.champion()
    assert release is not None
    return release


def since(count: int = 12, start: int = 1000) -> Tables:
    """A log of tasks that no release has learned, each with runs on every cluster."""
    return small_log(count, seed=77, start=start, runs=2)


def test_runs_of_new_tasks_count_and_those_of_learned_ones_do_not(champion: Release, tmp_path: Path) -> None:
    new, old = since(), small_log()
    both = {name: pd.concat([old[name], new[name]], ignore_index=True) for name in ("tasks", "runs")}
    write_tables({**new, **both}, tmp_path / "log")
    evidence = finished_runs(tmp_path / "log", champion, new["tasks"])
    assert evidence is not None
    shown = {evidence.shown[str(name)] for name in evidence.cells.points.task}
    unlearned = set(both["tasks"]["task_id"]) - champion.learned_from
    assert set(new["tasks"]["task_id"]) <= shown <= unlearned
    good = new["runs"][new["runs"]["status"] == "succeeded"]
    told = sum(evidence.shown[str(name)] in set(new["tasks"]["task_id"]) for name in evidence.cells.points.task)
    assert told == len(good.groupby(["task_id", "cluster_id"]))


def test_only_kin_of_what_waits_counts(champion: Release, tmp_path: Path) -> None:
    new = since()
    write_tables(new, tmp_path / "log")
    one = new["tasks"].iloc[[0]]
    evidence = finished_runs(tmp_path / "log", champion, one)
    assert evidence is not None
    kin = new["tasks"][new["tasks"]["model"] == one["model"].iloc[0]]["task_id"]
    assert {evidence.shown[str(name)] for name in evidence.cells.points.task} == set(kin)


def test_of_many_runs_the_newest_count(champion: Release, tmp_path: Path) -> None:
    new = since(4)
    many = pd.concat([new["runs"].assign(run_id=new["runs"]["run_id"] + f"-{k}") for k in range(60)])
    write_tables({**new, "runs": many.reset_index(drop=True)}, tmp_path / "log")
    evidence = finished_runs(tmp_path / "log", champion, new["tasks"])
    assert evidence is not None
    runs = np.rint(champion.run_noise**2 / evidence.cells.variance).sum()
    assert runs <= NEWEST < (many["status"] == "succeeded").sum()


def test_without_a_log_there_is_no_evidence(champion: Release, tmp_path: Path) -> None:
    assert finished_runs(tmp_path / "none", champion, since()["tasks"]) is None
    empty = since()
    write_tables({**empty, "runs": empty["runs"].iloc[:0]}, tmp_path / "log")
    assert finished_runs(tmp_path / "log", champion, empty["tasks"]) is None


def test_a_round_rests_on_them_and_says_so(models: Models, store: Store, tmp_path: Path) -> None:
    """The same tasks again, known by their descriptions: what they ran decides, and the round tells which runs."""
    ran = since()
    write_tables(ran, tmp_path / "log")
    again = ran["tasks"].assign(task_id=[f"again{j}" for j in range(12)])
    store.submit({**{name: ran[name] for name in ("nodes", "edges")}, "tasks": again})
    report = match_round(store, models, MatchSettings(), tmp_path / "log")
    assert report.observed > 12
    assert f"and {report.observed} finished runs since" in str(report)
    (row,) = store.rounds().to_dict("records")
    assert set(row["data"]["moved_by"]) <= set(again["task_id"])
    assert all("time x" in line for lines in row["data"]["moved_by"].values() for line in lines)
    assert store.latest("round.")["round.observed"] == report.observed
    champion = models.champion()
    assert champion is not None
    seen = finished_runs(tmp_path / "log", champion, again, row["data"]["observed"])
    assert seen is not None
    assert sorted(seen.run_id) == sorted(row["data"]["observed"])
    truth = ran["runs"][ran["runs"]["status"] == "succeeded"].groupby(["task_id", "cluster_id"])["duration_s"].mean()
    plan = store.assignments(round_id=1)
    actual = [
        truth[f"task{1000 + int(t.removeprefix('again'))}", c]
        for t, c in zip(plan.task_id, plan.cluster_id, strict=True)
    ]
    assert np.log(plan["seconds"].to_numpy() / actual) == pytest.approx(0, abs=0.12)


def test_a_round_that_may_not_observe_does_not(models: Models, store: Store, tmp_path: Path) -> None:
    ran = since()
    write_tables(ran, tmp_path / "log")
    store.submit({name: ran[name] for name in ("tasks", "nodes", "edges")})
    assert match_round(store, models, MatchSettings(observes=False), tmp_path / "log").observed == 0


def test_a_log_that_cannot_be_read_keeps_no_task_waiting(models: Models, store: Store, tmp_path: Path) -> None:
    ran = since()
    write_tables(ran, tmp_path / "log")
    (tmp_path / "log" / "runs.parquet").write_bytes(b"PAR1 no more")
    store.submit({name: ran[name] for name in ("tasks", "nodes", "edges")})
    report = match_round(store, models, MatchSettings(), tmp_path / "log")
    assert (report.tasks, report.observed) == (12, 0)
    assert "runs.parquet" in report.unread
    champion = models.champion()
    assert champion is not None
    with pytest.raises(DataError):
        finished_runs(tmp_path / "log", champion, ran["tasks"])

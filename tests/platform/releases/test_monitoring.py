"""Figures against their definitions, alarms where something changed and nowhere else, one training an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import Tables
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem
from mfcp.platform.releases import monitoring
from mfcp.platform.releases.monitoring import (
    WIDTH,
    Detector,
    MonitorSettings,
    alarms,
    figures,
    look,
    observations,
    record,
    regret,
)
from mfcp.platform.state.store import Store

SETTINGS = MonitorSettings()


def table(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = [column.name for column in SCHEMA[name].columns]
    return coerce(SCHEMA[name], pd.DataFrame(rows, columns=columns, dtype=object)).frame


def task_rows(n: int) -> list[dict[str, Any]]:
    return [{"task_id": f"t{i}", "model": "resnet", "phase": "train"} for i in range(n)]


def run(number: int, task: int, cluster: str, seconds: float | None, status: str = "succeeded") -> dict[str, Any]:
    return {
        "run_id": f"r{number}",
        "task_id": f"t{task}",
        "cluster_id": cluster,
        "duration_s": seconds,
        "status": status,
    }


def log(tasks: int, runs: list[dict[str, Any]]) -> Tables:
    clusters = [{"cluster_id": name} for name in "ab"]
    return {
        "tasks": table("tasks", task_rows(tasks)),
        "clusters": table("clusters", clusters),
        "runs": table("runs", runs),
    }


def plan(
    tasks: list[int], clusters: str, seconds: float = 100.0, reliability: float = 0.9, sd: float = 0.1
) -> pd.DataFrame:
    low, high = seconds * np.exp(-WIDTH * sd), seconds * np.exp(WIDTH * sd)
    names = ["task_id", "cluster_id", "seconds", "seconds_low", "seconds_high", "reliability"]
    rows = [(f"t{t}", c, seconds, low, high, reliability) for t, c in zip(tasks, clusters, strict=True)]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(reliability_low=reliability - 0.1, reliability_high=reliability + 0.05)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path}/platform.db")


def assign(
    store: Store, planned: pd.DataFrame, version: str = "v1", makespan: float = 200.0, gamma: float = 0.5, **data: Any
) -> None:
    names = set(planned["task_id"])
    store.submit({"tasks": table("tasks", [{"task_id": name, "phase": "train"} for name in sorted(names)])})
    facts = {"version": version, "gamma": gamma, "makespan": makespan, "tasks": len(planned), "data": data}
    assert store.assign(facts, planned) is not None


def test_only_the_assigned_clusters_runs_count_and_of_their_times_the_first(store: Store) -> None:
    assign(store, plan([0, 1], "ab"))
    runs = [
        run(0, 0, "b", 50.0),
        run(1, 0, "a", None, "failed"),
        run(2, 1, "b", None, "running"),
        run(3, 0, "a", 110.0),
        run(4, 0, "a", 150.0),
        run(5, 1, "b", 130.0),
    ]
    seen = observations(log(2, runs), store.assignments(), store.rounds())
    assert seen["run_id"].tolist() == ["r1", "r3", "r4", "r5"]
    assert seen["success"].tolist() == [0.0, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(seen["log_ratio"], [np.nan, np.log(1.1), np.nan, np.log(1.3)])
    np.testing.assert_allclose(seen["z"], [np.nan, np.log(1.1) / 0.1, np.nan, np.log(1.3) / 0.1])
    np.testing.assert_allclose(seen["inside"], [np.nan, 1.0, np.nan, 0.0])


def test_figures_by_their_definitions(store: Store) -> None:
    assign(store, plan([0, 1], "ab"))
    runs = [run(0, 0, "a", 110.0), run(1, 1, "b", 130.0), run(2, 1, "b", None, "oom")]
    found = figures(observations(log(2, runs), store.assignments(), store.rounds()))
    ratio = np.log([1.1, 1.3])
    assert found["time.bias"] == pytest.approx(ratio.mean())
    assert found["time.rms"] == pytest.approx(np.sqrt((ratio**2).mean()))
    assert found["time.rms.b"] == pytest.approx(ratio[1])
    assert found["time.coverage"] == 0.5
    assert found["reliability.brier"] == pytest.approx((0.01 + 0.01 + 0.81) / 3)
    assert found["reliability.ece"] == pytest.approx(0.9 - 2 / 3)  # one bin: stated against seen
    assert found["reliability.bias"] == pytest.approx(2 / 3 - 0.9)


def test_nothing_back_is_no_figure(store: Store) -> None:
    health = look(store, log(1, [run(0, 0, "a", 1.0)]), None, SETTINGS)
    assert (health.figures, health.alarms, health.retrain) == ({}, [], [])


def test_regret_is_of_rounds_whose_pairs_are_measured(store: Store) -> None:
    assign(store, plan([0, 1], "aa"), makespan=100.0)  # both on one cluster: 200 s where 100 s can be had
    assign(store, plan([2, 3], "ab"), makespan=100.0)
    runs = [run(10 * t + i, t, c, 100.0) for t in (0, 1) for i, c in enumerate("ab")]
    runs += [run(40, 2, "a", 100.0), run(41, 3, "b", 100.0)]  # on one cluster each: nothing to compare with
    found = regret(log(4, runs), store.assignments(), store.rounds(), SETTINGS)
    assert found == {"regret.mean": pytest.approx(1.0), "regret.rounds": 1.0}
    best = [run(50, 2, "b", 300.0), run(51, 3, "a", 300.0)]
    found = regret(log(4, runs + best), store.assignments(), store.rounds(), SETTINGS)
    assert found == {"regret.mean": pytest.approx(0.5), "regret.rounds": 2.0}


def test_regret_counts_the_backlog_that_the_round_knew(store: Store) -> None:
    """Twice 100 s on a, where b is busy for 150 s: the best plan ends after 200 s as well, not after 100."""
    assign(store, plan([0, 1], "aa"), makespan=200.0, backlog={"b": 150.0})
    runs = [run(10 * t + i, t, c, 100.0) for t in (0, 1) for i, c in enumerate("ab")]
    found = regret(log(2, runs), store.assignments(), store.rounds(), SETTINGS)
    assert found == {"regret.mean": 0.0, "regret.rounds": 1.0}
    assign(store, plan([2], "a"), makespan=130.0, backlog={"a": 30.0})  # 130 s, where 100 can be had
    runs += [run(40 + i, 2, c, 100.0) for i, c in enumerate("ab")]
    found = regret(log(3, runs), store.assignments(), store.rounds(), SETTINGS)
    assert found == {"regret.mean": pytest.approx(0.5 * 30 / 130), "regret.rounds": 2.0}


def test_rounds_on_idle_clusters_are_no_other_kind_of_problem(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog of zeros would be one for engines that are slower."""
    asked: list[bool] = []

    def noted(problem: MatchingProblem, **how: Any) -> Any:
        asked.append(problem.extended)
        return solve(problem, **how)

    monkeypatch.setattr(monitoring, "solve", noted)
    assign(store, plan([0], "a"), makespan=100.0)
    assign(store, plan([1], "a"), makespan=100.0, backlog={"a": 30.0})
    runs = [run(10 * t + i, t, c, 100.0) for t in (0, 1) for i, c in enumerate("ab")]
    regret(log(2, runs), store.assignments(), store.rounds(), SETTINGS)
    assert asked == [True, False]  # the newest first


def test_regret_charges_the_reliability_that_is_missing(store: Store) -> None:
    assign(store, plan([0], "a"), makespan=100.0, gamma=1.0)
    runs = [run(0, 0, "a", 100.0), run(1, 0, "a", None, "failed"), run(2, 0, "b", 150.0)]
    found = regret(log(1, runs), store.assignments(), store.rounds(), SETTINGS)
    assert found["regret.mean"] == pytest.approx((1.0 + SETTINGS.price * 0.5) - 1.5)


def history(shift: float, slow: str = "b", n: int = 120) -> tuple[pd.DataFrame, Tables]:
    """Observations of tasks on two clusters, one of which changes half-way, and their log."""
    rng = np.random.default_rng(0)
    clusters = ["ab"[i % 2] for i in range(n)]
    z = rng.normal(size=n) + np.array([shift * (c == slow and i >= n // 2) for i, c in enumerate(clusters)])
    seen = pd.DataFrame({"cluster_id": clusters, "z": z, "run_id": [f"r{i}" for i in range(n)]})
    return seen.assign(reliability=0.9, success=(rng.random(n) < 0.9).astype(float)), log(1, [])


def test_a_cluster_that_slows_down_alarms_once_soon_and_alone() -> None:
    seen, empty = history(shift=2.5)
    (alarm,) = alarms(seen, empty["tasks"], SETTINGS)
    assert alarm.stream == "time of b"
    assert 60 < int(alarm.at[1:]) < 60 + 2 * 20
    assert alarms(history(shift=0.0)[0], empty["tasks"], SETTINGS) == []


def test_a_cluster_that_fails_more_often_alarms() -> None:
    seen, empty = history(shift=0.0, n=400)
    late = (seen["cluster_id"] == "a") & (seen.index >= 200)
    seen.loc[late, "success"] = np.where(np.arange(late.sum()) % 2, 1.0, 0.0)
    assert [alarm.stream for alarm in alarms(seen, empty["tasks"], SETTINGS)] == ["reliability of a"]


def test_tasks_of_another_size_alarm() -> None:
    rng = np.random.default_rng(0)
    flops = 1e9 * np.exp(rng.normal(size=400) + np.where(np.arange(400) >= 200, 1.5, 0.0))
    tasks = table("tasks", [row | {"flops": f} for row, f in zip(task_rows(400), flops, strict=True)])
    found = alarms(history(0.0)[0].head(0), tasks, SETTINGS)
    assert [alarm.stream for alarm in found] == ["mix of flops"]
    assert 200 < int(found[0].at[1:]) < 300
    assert alarms(history(0.0)[0].head(0), tasks.head(200), SETTINGS) == []


@settings(max_examples=20, derandomize=True)
@given(st.integers(1, 150), st.integers(0, 1000))
def test_what_comes_later_does_not_move_an_alarm(first: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=150) + np.where(np.arange(150) >= 75, 2.0, 0.0)
    detector = Detector()
    assert detector.alarms(values[:first]) == [place for place in detector.alarms(values) if place < first]


def drifting(store: Store) -> Tables:
    """Sixty tasks on one cluster, the second half of which takes twice as long as predicted."""
    assign(store, plan(list(range(60)), "a" * 60))
    store.add_model("v1", "", {}, {})
    return log(60, [run(i, i, "a", 100.0 if i < 30 else 200.0) for i in range(60)])


def looked(store: Store, tables: Tables, champion: str = "v1", failed: bool = False) -> tuple[int, bool]:
    """New alarms, and whether a training was asked for, of one look of the flow."""
    health = look(store, tables, champion, SETTINGS, failed=lambda run: failed)
    record(store, health, requested=f"run {health.requests}" if health.retrain else None)
    return len(health.alarms), bool(health.retrain)


def test_an_episode_asks_for_one_training(store: Store) -> None:
    tables = drifting(store)
    assert looked(store, tables) == (1, True)
    assert looked(store, tables) == (0, False)
    # Another change while that training runs belongs to the same episode, after it to a new one.
    assign(store, plan(list(range(60, 120)), "b" * 60))
    more = [run(i, i, "b", 100.0 if i < 90 else 40.0) for i in range(60, 120)]
    grown = log(120, tables["runs"].to_dict("records") + more)
    assert looked(store, grown) == (1, False)
    store.add_model("v2", "", {}, {})  # not promoted: v1 goes on, and its old alarms are answered
    assert looked(store, grown) == (0, False)
    assign(store, plan(list(range(120, 180)), "b" * 60, seconds=40.0))
    again = [run(i, i, "b", 40.0 if i < 150 else 100.0) for i in range(120, 180)]
    alarms_now, asked = looked(store, log(180, grown["runs"].to_dict("records") + again))
    assert alarms_now >= 1
    assert asked
    assert len(store.events("retrain_requested")) == 2


def test_a_request_that_failed_is_made_again(store: Store) -> None:
    tables = drifting(store)
    health = look(store, tables, "v1", SETTINGS)
    record(store, health, requested=None)
    again = look(store, tables, "v1", SETTINGS)
    assert (again.alarms, again.retrain) == ([], health.retrain)


def test_a_training_that_failed_is_asked_for_again_but_not_for_ever(store: Store) -> None:
    tables = drifting(store)
    assert looked(store, tables) == (1, True)
    assert looked(store, tables, failed=True) == (0, True)
    assert looked(store, tables) == (0, False)  # the second one runs
    assert [looked(store, tables, failed=True) for _ in range(3)] == [(0, True), (0, False), (0, False)]
    asked = [dict(content) for content in store.events("retrain_requested")["content"]]
    assert [one["run"] for one in asked] == ["run 0", "run 1", "run 2"]
    assert len({tuple(one["keys"]) for one in asked}) == 1


def test_a_new_champion_starts_without_its_predecessors_alarms(store: Store) -> None:
    tables = drifting(store)
    assert looked(store, tables, champion="v2") == (0, False)


def test_figures_and_alarms_wait_for_the_tracking_store(store: Store) -> None:
    looked(store, drifting(store))
    notes = store.undelivered()
    values = notes[notes["kind"] == "metric"].set_index("name")["value"]
    assert values["monitor.alarms"] == 1.0
    assert values["monitor.time.bias"] == pytest.approx(np.log(2) / 2)
    assert store.events("drift")["content"].iloc[0]["stream"] == "time of a"

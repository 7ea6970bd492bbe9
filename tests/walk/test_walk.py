"""The way of somebody with thirty runs of his own: from an empty folder to a nomination, as the README has it.

`my-log` is a log of ten tasks on three clusters with thirty runs of each pair, as `mfcp init` explains it.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mfcp.cli import main

HERE = Path(__file__).parent
pytestmark = [pytest.mark.xdist_group("walk")]


def call(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(part) for part in arguments])
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the walker's log, and the release that he made of it."""
    place = tmp_path_factory.mktemp("walk")
    assert call("init", place / "my-log") == 0
    for path in (HERE / "my-log").glob("*.csv"):
        shutil.copy(path, place / "my-log")
    assert call("release", "--data", place / "my-log", "--out", place / "my-release") == 0
    return place


def logged() -> pd.DataFrame:
    """Mean seconds of succeeded runs, (tasks, clusters)."""
    runs = pd.read_csv(HERE / "my-log/runs.csv")
    good = runs[runs["status"] == "succeeded"]
    return good.groupby(["task_id", "cluster_id"])["duration_s"].mean().unstack()


def test_a_new_folder_explains_itself_and_its_examples_are_never_learned(tmp_path: Path, capsys: Any) -> None:
    assert call("init", tmp_path / "log") == 0
    assert "mfcp check" in (tmp_path / "log/README.md").read_text()
    for name in ("tasks", "clusters", "runs"):
        with (tmp_path / f"log/{name}.csv").open() as file:
            assert len(list(csv.reader(file))) == 2
    assert call("check", tmp_path / "log") == 0
    assert "the example row of `mfcp init` is left out of tasks, clusters, runs" in capsys.readouterr().out
    assert call("release", "--data", tmp_path / "log", "--out", tmp_path / "release") == 2
    assert not (tmp_path / "release").exists()
    runs = tmp_path / "log" / "runs.csv"
    examples = runs.read_text()
    runs.unlink()  # as after a kill
    assert call("init", tmp_path / "log") == 0
    assert runs.read_text() == examples
    runs.write_text(f"{examples}my-run,my-task,my-cluster,1,,,9.5,failed,,,,\n")
    capsys.readouterr()
    assert call("init", tmp_path / "log") == 2
    assert "holds runs.csv already" in capsys.readouterr().err
    assert "my-run" in runs.read_text()


def test_check_says_what_the_log_is_good_for(place: Path, capsys: Any) -> None:
    assert call("check", place / "my-log") == 0
    said = capsys.readouterr().out
    assert "10 tasks, 3 clusters, 900 runs, 2026-10-01 to 2026-11-07" in said
    assert "measured pairs: 30 of 30; tasks on two clusters or more: 10" in said
    assert "only 10 tasks: wide intervals" in said
    assert said.count("\n    yes") == 2


def test_the_readme_shows_what_the_commands_print(place: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` to the letter; of `match` all but numbers, whose last digit another machine may round otherwise."""
    monkeypatch.chdir(place)
    shown = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert call("check", "my-log") == 0
    lines = capsys.readouterr().out.split("what works:")[0].splitlines()[1:]
    assert "\n".join(lines).strip() in shown
    assert call("release", "--data", "my-log", "--out", "readme-release") == 0
    capsys.readouterr()
    assert call("match", "--model", "readme-release", "--tasks", HERE / "new-tasks.csv", "--out", "plan.csv") == 0
    assert worded(capsys.readouterr().out) in worded(shown)


def worded(text: str) -> str:
    """Without numbers, hashes and spaces."""
    return re.sub(r"\s+", " ", re.sub(r"\b[0-9a-f]{12}\b|[\d.]+", "#", text)).strip()


def test_two_new_tasks_are_nominated_and_the_answer_says_what_it_rests_on(place: Path, capsys: Any) -> None:
    model, tasks = ("--model", place / "my-release"), ("--tasks", HERE / "new-tasks.csv")
    assert call("match", *model, *tasks, "--out", place / "plan.csv") == 0
    said = capsys.readouterr().out
    assert f"of {place / 'my-log'}, 2026-10-01 to 2026-11-07, 10 tasks" in said
    assert "not measured: param_count, flops, samples of night-2: not stated, so the interval is wider" in said
    plan = pd.read_csv(place / "plan.csv").set_index("task_id")
    assert set(plan["cluster_id"]) <= {"c0", "c1", "c2"}
    assert (plan["runs"] == 300).all()
    assert plan["last_run"].eq("2026-11-07").all()
    width = np.log(plan["seconds_high"] / plan["seconds_low"])
    assert width["night-2"] > 1.3 * width["night-1"]
    text = (place / "plan.csv").read_text()
    assert max(len(cell) for row in csv.reader(text.splitlines()[1:]) for cell in row[2:5]) <= 7  # six digits
    assert call("match", *model, *tasks) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["emulated"] is False
    assert answer["log"]["runs_per_cluster"] == {"c0": 300, "c1": 300, "c2": 300}


def test_a_task_that_the_log_ran_is_known_by_its_name_or_by_its_description(place: Path, capsys: Any) -> None:
    rows = pd.read_csv(HERE / "my-log/tasks.csv")
    rows.assign(task_id=[f"again-{k}" for k in range(10)]).to_csv(place / "same.csv", index=False)
    rows[["task_id"]].to_csv(place / "named.csv", index=False)
    seconds = logged()
    for file in ("same.csv", "named.csv"):
        assert call("match", "--model", place / "my-release", "--tasks", place / file) == 0
        found = json.loads(capsys.readouterr().out)["tasks"]
        truth = [seconds.loc[task, row["cluster_id"]] for task, row in zip(rows["task_id"], found, strict=True)]
        assert np.abs(np.log(np.array([row["seconds"] for row in found]) / truth)).max() < 0.02


def test_intervals_hold_tasks_that_were_left_out(tmp_path: Path, capsys: Any) -> None:
    """Releases of eight tasks each, asked about the other two; the intervals are of 95 %."""
    tables = {name: pd.read_csv(HERE / f"my-log/{name}.csv") for name in ("tasks", "clusters", "runs")}
    inside, seconds = [], logged()
    for k in range(0, 10, 2):
        out = tables["tasks"]["task_id"].iloc[k : k + 2]
        (tmp_path / "log").mkdir(exist_ok=True)
        for name, table in tables.items():
            kept = table if name == "clusters" else table[~table["task_id"].isin(out)]
            kept.to_csv(tmp_path / f"log/{name}.csv", index=False)
        assert call("release", "--data", tmp_path / "log", "--out", tmp_path / "release") == 0
        tables["tasks"].iloc[k : k + 2].to_csv(tmp_path / "new.csv", index=False)
        capsys.readouterr()
        for cluster in seconds.columns:
            only = ("--clusters", cluster, "--engine", "greedy")
            assert call("match", "--model", tmp_path / "release", "--tasks", tmp_path / "new.csv", *only) == 0
            for row in json.loads(capsys.readouterr().out)["tasks"]:
                inside.append(row["seconds_low"] <= seconds.loc[row["task_id"], cluster] <= row["seconds_high"])
    assert np.mean(inside) >= 0.8


def test_without_failures_reliability_is_unknown_and_gamma_is_not_applied(
    place: Path, tmp_path: Path, capsys: Any
) -> None:
    for name in ("tasks", "clusters", "runs"):
        table = pd.read_csv(HERE / f"my-log/{name}.csv")
        if name == "runs":
            table = table[table["status"] == "succeeded"]
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    assert call("release", "--data", tmp_path, "--out", tmp_path / "release") == 0
    assert "reliability: unknown, no run failed where one succeeded; gamma is not applied" in capsys.readouterr().out
    tasks = ("--tasks", HERE / "new-tasks.csv", "--gamma", "0.9")
    assert call("match", "--model", tmp_path / "release", *tasks) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["gamma"] is answer["reliability"] is None
    assert all(row["reliability"] is None for row in answer["tasks"])
    assert any("gamma is not applied" in text for text in answer["not_measured"])
    assert call("match", "--model", tmp_path / "release", *tasks, "--out", tmp_path / "plan.csv") == 0
    assert "reliability unknown" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "plan.csv")["reliability"].isna().all()


def test_a_failed_release_leaves_no_older_one_as_if_it_were_new(place: Path, tmp_path: Path, capsys: Any) -> None:
    shutil.copytree(place / "my-release", tmp_path / "release")
    thin = tmp_path / "thin"
    thin.mkdir()
    for name in ("tasks", "clusters", "runs"):
        table = pd.read_csv(HERE / f"my-log/{name}.csv")
        (table if name == "clusters" else table[table["task_id"].isin(["t00", "t01"])]).to_csv(
            thin / f"{name}.csv", index=False
        )
    assert call("release", "--data", thin, "--out", tmp_path / "release") == 2
    error = capsys.readouterr().err
    assert "tasks: 2 with a time on two such clusters, 3 needed" in error
    assert "the earlier one is in" in error
    assert call("match", "--model", tmp_path / "release", "--tasks", HERE / "new-tasks.csv") == 2
    assert "no such release" in capsys.readouterr().err
    assert call("match", "--model", tmp_path / "release.previous", "--tasks", HERE / "new-tasks.csv") == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("keep me")
    assert call("release", "--data", place / "my-log", "--out", tmp_path / "mine") == 2
    assert (tmp_path / "mine/letter.txt").read_text() == "keep me"


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [3, 2])
def test_a_benchmark_of_a_small_log_ends_with_a_table(place: Path, tmp_path: Path, capsys: Any, clusters: int) -> None:
    for name in ("tasks", "clusters", "runs"):
        table = pd.read_csv(HERE / f"my-log/{name}.csv")
        if clusters == 2:
            table = table[~table.get("cluster_id", pd.Series("", table.index)).eq("c2")]
            table = table[~table.get("task_id", pd.Series("", table.index)).isin(["t08", "t09"])]
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    options = ("--seeds", 2, "--methods", "tsm,tsm_log,mfcp_x")
    assert call("benchmark", "--data", tmp_path, "--out", tmp_path / "out", *options) == 0
    said = capsys.readouterr().out
    assert "rounds of 2 tasks instead of 5" in said
    assert "mfcp_x" in said
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert metrics["A"]["mfcp_x"]["penalised_excess"]["mean"] >= 0
    assert (
        call("benchmark", "--data", tmp_path, "--out", tmp_path / "out", *options, "--tasks", 9, "--settings", 4) == 2
    )
    error = capsys.readouterr().err
    assert "--settings 4: at most 1; --tasks 9: at most 2. What works: --settings 1 --tasks 2" in error

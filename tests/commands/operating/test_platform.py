"""`mfcp platform` as a person uses it: tasks in, a look, plans out, a release put in and taken back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from attempts_by_hand import CERTAIN, PREDICTED
from platform_log import small_log

from mfcp.cli import main
from mfcp.commands.operating.platform import _changes
from mfcp.data.log.tables import write_tables
from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.releases.models import Models
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.running.runner import Runner
from mfcp.platform.state.store import Note, Store


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("MFCP_HOME", raising=False)
    monkeypatch.delenv("MFCP_DATABASE", raising=False)


def mfcp(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["platform", *(str(argument) for argument in arguments)])
    return int(end.value.code or 0)


def test_a_day_by_hand(
    home: Path,
    store: Store,
    good: Path,
    bad: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = Models(home, store)
    first, second = models.add(good, {"retrain.seconds": 1.5}), models.add(bad, {})
    tables = small_log(6, seed=3, start=700)
    write_tables({name: tables[name] for name in ("tasks", "nodes", "edges")}, tmp_path / "in")
    write_tables({"tasks": tables["tasks"].iloc[:2]}, tmp_path / "some", format="csv")

    assert mfcp("--home", home, "submit", "--tasks", tmp_path / "some" / "tasks.csv") == 0
    assert mfcp("--home", home, "submit", "--tasks", tmp_path / "in") == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 tasks submitted, 0 known already; 2 pending",
        "4 tasks submitted, 2 known already; 6 pending",
    ]
    assert match_round(store, models, MatchSettings()).tasks == 6
    store.deliver("d", "day.zip", "taken", {"runs": 30}, {"runs": 2})
    store.post([Note("x", 1.0)])

    assert mfcp("--home", home, "assignments", "--out", tmp_path / "plan.csv") == 0
    assert list(pd.read_csv(tmp_path / "plan.csv")["task_id"]) == list(store.assignments()["task_id"])
    capsys.readouterr()
    assert mfcp("--home", home, "assignments", "--round", 1) == 0
    assert [row["task_id"] for row in json.loads(capsys.readouterr().out)] == list(store.assignments()["task_id"])

    assert mfcp("--home", home, "status") == 0
    shown = capsys.readouterr().out
    rows = {cells[0]: cells for line in shown.splitlines() if len(cells := re.split(r"\s{2,}", line.strip())) > 2}
    assert "0 tasks pending, 6 assigned in 1 rounds, 0 set aside; offline: no cluster" in shown
    assert [rows[first][1], rows[second][1]] == ["champion", "challenger"]
    assert rows["1"][2] == "6"
    assert "retrain.seconds 1.5" in rows[first][4]
    assert rows["day.zip"][2:] == ["taken", "runs 30", "runs 2"]
    assert "metrics and events that wait for MLflow: 7; the oldest since 20" in shown

    monkeypatch.setenv("COLUMNS", "80")
    assert mfcp("--home", home, "status") == 0
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 80
    assert "reliability" in narrow
    assert mfcp("--home", home, "status", "--wide") == 0
    assert "took" in capsys.readouterr().out
    assert mfcp("--home", home, "status", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["champion"], told["challenger"], told["counts"]["assignments"]) == (first, second, 6)
    assert [row["status"] for row in told["deliveries"]] == ["taken"]

    assert mfcp("--home", home, "promote", second) == 0
    assert mfcp("--home", home, "rollback") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"champion: {second}", f"champion: {first} (before: {second})"
    ]  # fmt: skip


def test_what_cannot_be_done_says_why(
    home: Path, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[tuple[object, ...], int, str]] = [
        (("--home", tmp_path / "nowhere", "status"), 1, "no platform here; make it with `make platform`"),
        (("--home", home, "promote", "v9"), 2, "release 'v9': not known here; known: none"),
        (("--home", home, "rollback"), 1, "nothing to roll back to, nothing changed"),
        (("--home", home, "assignments", "--round", 7), 2, "round 7: not known here"),
        (("--home", home, "assignments", "--out", "plan.txt"), 2, "expected a name that ends in .csv or .json"),
        (("--home", home, "submit", "--tasks", tmp_path / "none.csv"), 2, "none.csv"),
        (("--home", home, "submit", "--tasks", tmp_path), 2, "no table 'tasks' in it"),
    ]
    for arguments, code, message in cases:
        assert mfcp(*arguments) == code
        assert message in capsys.readouterr().err


def test_an_empty_platform_is_shown_as_such(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MFCP_HOME", str(home))
    assert mfcp("status") == 0
    shown = capsys.readouterr().out
    for title in ("last rounds: none yet", "releases: none yet", "last deliveries: none yet"):
        assert title in shown
    assert "wait for MLflow: 0" in shown


@pytest.mark.parametrize("behind", [False, True])
def test_the_folder_stands_before_the_command_or_behind_it(
    home: Path, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    monkeypatch.chdir(home.parent)
    where = ("--home", home)
    assert mfcp(*(("status", *where) if behind else (*where, "status"))) == 0
    assert str(home) in capsys.readouterr().out


def test_another_gamma_comes_with_a_word() -> None:
    columns = {"tasks": 1, "status": "optimal", "makespan": 9.0, "bound": 9.0, "gap": 0.0, "mean_reliability": 0.95}
    assert _changes_of([(1, "a", 0.728), (2, "a", 0.728), (3, "b", 0.9), (4, "b", 0.9)], columns) == [
        "From round 3 on, release b asks for gamma 0.900, where a asked for gamma 0.728."
    ]
    assert _changes_of([(1, "a", 0.7), (2, "b", 0.7)], columns) == []
    # A log in which no run failed tells nothing of reliability.
    assert _changes_of([(1, "a", None), (2, "b", None)], columns) == []
    assert _changes_of([(1, "a", None), (2, "b", 0.9), (3, "c", float("nan"))], columns) == [
        "From round 2 on, release b asks for gamma 0.900, where a asked for no gamma.",
        "From round 3 on, release c asks for no gamma, where b asked for gamma 0.900.",
    ]


def _changes_of(rounds: list[tuple[int, str, float | None]], columns: dict[str, object]) -> list[str]:
    class Rounds:
        def rounds(self, last: int) -> pd.DataFrame:
            rows = [{"round_id": k, "version": version, "gamma": gamma} | columns for k, version, gamma in rounds]
            return pd.DataFrame(rows[::-1])

    return _changes(Rounds())  # type: ignore[arg-type]


def test_runs_on_real_clusters_by_hand(
    home: Path, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Limits, cancellation, attempts, and a plan as jobs."""
    cluster = {"executor": {"kind": "simulated", "folder": str(tmp_path / "x")}, "command": "take {batch_size}"}
    (home / "repo").mkdir()
    settings = {"platform": {"clusters": {"x": cluster}, "run": {"command": "echo {model}"}}}
    (home / "repo" / "params.yaml").write_text(yaml.safe_dump(settings))
    tasks = pd.DataFrame({"task_id": ["a", "b", "c"], "model": ["vit"] * 3, "batch_size": [3, 4, 5]})
    tasks.to_csv(tmp_path / "new.csv", index=False)
    assert mfcp("--home", home, "submit", "--tasks", tmp_path / "new.csv", "--seconds", 90, "--memory-gib", 2) == 0
    assert store.limits(["a"]) == {"a": {"seconds": 90.0, "memory_bytes": 2 << 30}}
    assert mfcp("--home", home, "submit", "--tasks", tmp_path / "new.csv", "--cpus", 0) == 2
    assert "--cpus: expected a number above 0, got 0" in capsys.readouterr().err
    assert mfcp("--home", home, "submit", "--tasks", tmp_path / "new.csv", "--memory-gib", "inf") == 2
    assert "--memory-gib: expected a number above 0, got inf" in capsys.readouterr().err
    assert mfcp("--home", home, "cancel", "c", "nobody") == 2  # nothing of it is done
    assert store.counts()["queue"] == 3
    capsys.readouterr()

    assert mfcp("--home", home, "cancel", "c") == 0
    assert "1 taken out of the queue; 0 asked to end" in capsys.readouterr().out
    plan = pd.DataFrame([{"task_id": "a", "cluster_id": "x", **PREDICTED, **CERTAIN}]).assign(reliability=0.9)
    number = store.assign({"version": "v", "tasks": 2}, pd.concat([plan, plan.assign(task_id="b", cluster_id="y")]))
    Runner(home, store, {"x": ClusterSettings(**cluster)}, JobSettings()).step()
    assert mfcp("--home", home, "attempts", "--task", "a", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["task_id"], row["cluster_id"], row["state"], row["command"]) == ("a", "x", "handed", "take 3")
    assert mfcp("--home", home, "attempts") == 0
    assert "handed" in capsys.readouterr().out
    assert mfcp("--home", home, "status") == 0
    assert "real clusters" in capsys.readouterr().out
    assert mfcp("--home", home, "cancel", "a") == 0
    assert "0 taken out of the queue; 1 asked to end" in capsys.readouterr().out
    assert mfcp("--home", home, "cancel", "nobody") == 2
    assert "nobody: no such task here" in capsys.readouterr().err

    for form, options in (("slurm", ()), ("kubernetes", ("--image", "i"))):
        out = tmp_path / form
        assert mfcp("--home", home, "assignments", "--round", number, "--as", form, "--out", out, *options) == 0
        assert f"2 tasks of round {number}" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "slurm").iterdir()) == ["x-0.sh", "y-0.sh"]
    assert "take 3" in (tmp_path / "slurm" / "x-0.sh").read_text()
    jobs = list(yaml.safe_load_all((tmp_path / "kubernetes" / "jobs.yaml").read_text()))
    assert [job["spec"]["activeDeadlineSeconds"] for job in jobs] == [90, 90]
    for options, message in (
        (("--as", "slurm", "--round", number), "needs --round ID and --out DIR"),
        (("--as", "kubernetes", "--round", number, "--out", tmp_path / "n"), "needs --image"),
        (("--as", "slurm", "--round", number, "--out", tmp_path / "slurm"), "is there already"),
        (("--as", "slurm", "--round", 99, "--out", tmp_path / "n"), "round 99: not known"),
    ):
        assert mfcp("--home", home, "assignments", *options) == 2
        assert message in capsys.readouterr().err

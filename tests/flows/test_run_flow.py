"""The flow that runs plans, against a real Prefect server: assigned tasks run on simulated clusters and come back."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from attempts_by_hand import assign, new_store
from flow_process import FlowProcess

from mfcp.platform.state.attempts import Attempts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]


def home_with(tmp_path: Path, platform: dict[str, object]) -> Path:
    """A platform's folder with these settings."""
    home = tmp_path / "home"
    (home / "repo").mkdir(parents=True)
    (home / "repo" / "params.yaml").write_text(yaml.safe_dump({"platform": platform}))
    return home


def test_what_is_assigned_runs_and_comes_back(flow_process: FlowProcess, tmp_path: Path) -> None:
    cluster = {"executor": {"kind": "simulated", "folder": str(tmp_path / "x"), "speed": 20.0}}
    settings = {"clusters": {"x": cluster}, "run": {"command": "take {model}", "deliver_s": 0.0, "poll_s": 0.1}}
    home = home_with(tmp_path, settings)
    store = new_store(home)
    assign(store, {"a": ("x", "take 1"), "b": ("x", "take 2"), "c": ("elsewhere", "take 1")})
    told = flow_process.run(home, "run", "plans run", stay_s=3.0).returned
    assert (told["planned"], told["begun"], told["over"], told["delivered"]) == (2, 2, 2, 2)
    assert {row["task_id"]: row["status"] for row in Attempts(store).of()} == {"a": "succeeded", "b": "succeeded"}
    assert any((home / "inbox").iterdir())
    assert flow_process.run(home, "run", "nothing is left", stay_s=0.2).returned["planned"] == 0


def test_without_real_clusters_there_is_nothing_to_run(flow_process: FlowProcess, tmp_path: Path) -> None:
    assert flow_process.run(home_with(tmp_path, {}), "run", "no clusters", stay_s=60.0).returned["planned"] == 0

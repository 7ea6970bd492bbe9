"""The flow that runs plans, against a real Prefect server: assigned tasks run on simulated clusters and come back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from attempts_by_hand import assign, new_store
from running import Prefect

from mfcp.platform.state.attempts import Attempts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]
REPOSITORY = Path(__file__).parents[2]


def home_with(tmp_path: Path, platform: dict[str, object]) -> Path:
    """A platform's folder with these settings."""
    home = tmp_path / "home"
    (home / "repo").mkdir(parents=True)
    (home / "repo" / "params.yaml").write_text(yaml.safe_dump({"platform": platform}))
    return home


def run(prefect: Prefect, home: Path, stay_s: float) -> dict[str, object]:
    """What a run of the flow returns."""
    code = f"import json; from flows.run import run; print('returned', json.dumps(run(stay_s={stay_s})))"
    variables = {"PREFECT_HOME": str(prefect.home), "PREFECT_API_URL": prefect.api, "MFCP_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env={**variables, "PATH": "/usr/bin:/bin"}, text=True,
        capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, object] = json.loads(done.stdout.rpartition("returned ")[2])
    return told


def test_what_is_assigned_runs_and_comes_back(prefect: Prefect, tmp_path: Path) -> None:
    cluster = {"executor": {"kind": "simulated", "folder": str(tmp_path / "x"), "speed": 20.0}}
    settings = {"clusters": {"x": cluster}, "run": {"command": "take {model}", "deliver_s": 0.0, "poll_s": 0.1}}
    home = home_with(tmp_path, settings)
    store = new_store(home)
    assign(store, {"a": ("x", "take 1"), "b": ("x", "take 2"), "c": ("elsewhere", "take 1")})
    told = run(prefect, home, 3.0)
    assert (told["planned"], told["begun"], told["over"], told["delivered"]) == (2, 2, 2, 2)
    assert {row["task_id"]: row["status"] for row in Attempts(store).of()} == {"a": "succeeded", "b": "succeeded"}
    assert any((home / "inbox").iterdir())
    assert run(prefect, home, 0.2)["planned"] == 0


def test_without_real_clusters_there_is_nothing_to_run(prefect: Prefect, tmp_path: Path) -> None:
    assert run(prefect, home_with(tmp_path, {}), 60.0)["planned"] == 0

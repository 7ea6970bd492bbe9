"""The flow monitor against a real server: drift is an event and asks once for a training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from flow_process import FlowProcess, ask
from platform_checkout import make_checkout
from platform_log import small_log
from running import Prefect, until

from flows import service, workspace
from mfcp.data.log.tables import write_tables
from mfcp.platform.state.home import LOG
from mfcp.platform.state.store import Store

REPOSITORY = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A platform, one cluster of which takes twice as long as predicted from the middle of its log on."""
    home = tmp_path / "home"
    workspace.make_home(make_checkout(tmp_path / "checkout"), home)
    log = small_log(80, runs=1)
    write_tables(log, home / "repo" / LOG)
    store = Store(f"sqlite:///{home}/platform.db")
    store.submit(log)
    runs = log["runs"][log["runs"]["cluster_id"] == "a"]
    seconds = runs["duration_s"].to_numpy(float) / np.where(np.arange(80) < 40, 1.0, 2.0)
    plan = pd.DataFrame({"task_id": runs["task_id"], "cluster_id": "a", "seconds": seconds, "reliability": 1.0})
    plan = plan.assign(
        seconds_low=seconds * 0.8, seconds_high=seconds * 1.25, reliability_low=1.0, reliability_high=1.0
    )
    store.assign({"version": "v1", "gamma": 0.5, "makespan": 1e5, "tasks": 80, "data": {}}, plan)
    store.add_model("v1", "", {}, {})
    store.crown("v1", "promote", "the first")
    return home


def test_drift_asks_once_for_a_training(
    prefect: Prefect, flow_process: FlowProcess, home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "flows").symlink_to(REPOSITORY / "flows")
    deployment = {
        "name": "retrain",
        "entrypoint": "flows/retrain.py:retrain",
        "work_pool": {"name": service.POOL},
        "schedules": [],
    }
    (project / "prefect.yaml").write_text(yaml.safe_dump({"name": "mfcp", "deployments": [deployment]}))
    service.make_pool(project, prefect.home, prefect.port)
    service.deploy(project, prefect.home, prefect.port)
    runs = [flow_process.run(home, "monitor", name) for name in ("first look", "second look")]
    assert [ran.said.count("training asked for as") for ran in runs] == [1, 0]
    assert runs[1].returned["time.bias"] == pytest.approx(np.log(2) / 2, abs=0.05)
    (found,) = ask(
        prefect, "deployments", deployments={"name": {"any_": ["retrain"]}}, flows={"name": {"any_": ["mfcp-retrain"]}}
    )
    (asked,) = ask(prefect, "flow_runs", flow_runs={"deployment_id": {"any_": [found["id"]]}})
    assert asked["state_type"] in ("SCHEDULED", "PENDING")

    def events() -> list[str]:
        named = {"event": {"name": ["mfcp.drift"]}, "occurred": {}}
        return [one["payload"]["stream"] for one in ask(prefect, "events", filter=named)]

    until(events, "the event arrives")
    assert events() == ["time of a"]
    store = Store(f"sqlite:///{home}/platform.db")
    assert len(store.events("retrain_requested")) == 1
    assert len(store.events("drift")) == 1

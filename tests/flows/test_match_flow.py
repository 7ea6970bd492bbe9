"""The flows match and promote against a real server: runs that complete, events that a person would see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flow_process import FlowError, FlowProcess, ask
from platform_log import misled, small_log, small_release, small_settings
from running import Prefect, until

from mfcp.data.log.tables import write_tables
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A platform with a bad champion, a good challenger, a log and twelve pending tasks."""
    import yaml

    home = tmp_path_factory.mktemp("platform")
    (home / "repo").mkdir()
    params = small_settings().content | {"platform": {"promote": {"rounds": 60, "tasks": 5}}}
    (home / "repo" / "params.yaml").write_text(yaml.safe_dump(params))
    old, new = small_log(), small_log(40, seed=5, start=500)
    log = {**old, **{name: pd.concat([old[name], new[name]], ignore_index=True) for name in ("tasks", "runs")}}
    write_tables(log, home / "repo" / "data" / "log")
    store = Store(f"sqlite:///{home}/platform.db")
    models = Models(home, store)
    for name, tables in (("bad", misled(old)), ("good", old)):
        small_release(home / name, tables)
        models.add(home / name, {})
    store.submit(small_log(12, seed=9, start=2000))
    return home


def events(prefect: Prefect, name: str) -> list[dict[str, Any]]:
    return ask(prefect, "events", filter={"event": {"name": [name]}})


def test_a_round_a_promotion_and_a_damaged_champion(prefect: Prefect, flow_process: FlowProcess, home: Path) -> None:
    store = Store(f"sqlite:///{home}/platform.db")
    first, second = list(store.models()["version"])

    ran = flow_process.run(home, "match", "round 1")
    report = ran.returned
    assert ran.found["state"]["type"] == "COMPLETED"
    assert (report["tasks"], report["version"], report["waiting"]) == (12, first, 0)
    assert len(store.assignments()) == 12
    assert not (home / "mlruns").exists()  # too few to send yet

    ran = flow_process.run(home, "promote", "promotion 1")
    verdict = ran.returned
    assert ran.found["state"]["type"] == "COMPLETED"
    assert verdict["promote"], verdict["why"]
    assert Models(home, store).current() == second
    until(lambda: events(prefect, "mfcp.promoted"), "the promotion is an event")
    assert events(prefect, "mfcp.promoted")[0]["payload"]["version"] == second
    assert store.counts()["outbox"] == 0
    assert (home / "mlruns" / "mlflow.db").exists()

    (home / "models" / second / "model.safetensors").write_bytes(b"rot")
    store.submit(small_log(3, seed=10, start=3000))
    ran = flow_process.run(home, "match", "round 2", deliver_from=1)
    report = ran.returned
    assert ran.found["state"]["type"] == "COMPLETED"
    assert (report["tasks"], report["version"]) == (3, first)
    until(lambda: events(prefect, "mfcp.model-refused"), "the refusal is an event")
    assert events(prefect, "mfcp.model-refused")[0]["resource"]["prefect.resource.id"] == f"mfcp.release.{second}"
    assert store.counts()["outbox"] == 0

    assert flow_process.run(home, "match", "round 3").returned["status"] == "idle"
    assert flow_process.run(home, "promote", "promotion 2").returned["why"] == "no challenger"


def test_a_folder_without_a_platform_is_a_failed_run_that_says_so(
    prefect: Prefect, flow_process: FlowProcess, tmp_path: Path
) -> None:
    with pytest.raises(FlowError, match="no platform here; make it with `make platform`"):
        flow_process.run(tmp_path / "nowhere", "match", "nowhere")
    (found,) = ask(prefect, "flow_runs", flow_runs={"name": {"any_": ["nowhere"]}})
    assert found["state"]["type"] == "FAILED"

"""The outbox: nothing is lost while MLflow is down, nothing is there twice after a death."""

from __future__ import annotations

import math
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mfcp.platform.deciding.outbox import REGISTERED, deliver, mirror
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Note, Store
from mfcp.release.model import verify


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path}/platform.db", wait_s=5)


def logged(home: Path) -> tuple[dict[tuple[str, int], float], dict[str, str]]:
    """(metric, step) → value, and the tags, of every run of the platform."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{home}/mlruns/mlflow.db")
    runs: list[Any] = list(client.search_runs([client.get_experiment_by_name("platform").experiment_id]))
    points = [p for run in runs for key in run.data.metrics for p in client.get_metric_history(run.info.run_id, key)]
    assert len({(p.key, p.step) for p in points}) == len(points)
    return {(p.key, p.step): p.value for p in points}, {k: v for run in runs for k, v in run.data.tags.items()}


def test_metrics_and_events_arrive_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(deliver(store, tmp_path)) == "0 metrics and events delivered"
    assert not (tmp_path / "mlruns").exists()  # nothing to send: the store is not even asked
    store.post([Note("round.gap", 0.5), Note("round.gap", math.nan), Note("round.gap", 0.25)])
    store.post([Note("model_refused", kind="event", content={"version": v}) for v in ("v1", "v2")])
    marked = store.mark
    with monkeypatch.context() as patch:  # a death after MLflow has it and before it is marked
        patch.setattr(store, "mark", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            deliver(store, tmp_path)
    assert store.counts()["outbox"] == 5
    assert store.mark == marked
    outcome = deliver(store, tmp_path)
    assert (outcome.delivered, outcome.waiting, outcome.error) == (5, 0, "")
    points, tags = logged(tmp_path)
    assert points == {
        ("round.gap", 1): 0.5,
        ("round.gap", 3): 0.25,
        ("event.model_refused", 4): 1.0,
        ("event.model_refused", 5): 1.0,
    }
    assert tags["event.model_refused"] == '{"id": 5, "version": "v2"}'
    assert deliver(store, tmp_path).delivered == 0


def test_a_store_that_is_down_delays_and_is_reported(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.post([Note("round.gap", 0.5), Note("round.tasks", 3.0)])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{closed.getsockname()[1]}")
        outcome = deliver(store, tmp_path)
    assert (outcome.delivered, outcome.waiting) == (0, 2)
    assert "cannot log there" in str(outcome)
    assert list(store.undelivered()["tries"]) == [1, 1]
    assert "127.0.0.1" in store.undelivered()["error"][0]

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (tmp_path / "mlruns").mkdir()
    (tmp_path / "mlruns" / "mlflow.db").write_bytes(b"damaged" * 1000)
    assert deliver(store, tmp_path).waiting == 2
    (tmp_path / "mlruns" / "mlflow.db").unlink()
    assert deliver(store, tmp_path).delivered == 2
    assert set(logged(tmp_path)[0]) == {("round.gap", 1), ("round.tasks", 2)}


def test_the_oldest_go_first_and_each_month_has_its_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, at in enumerate([1.7e9, 1.8e9, 1.7e9, 0.0]):  # a clock that jumps
        monkeypatch.setattr("time.time", lambda at=at: at)
        store.post([Note("x", float(number))])
    monkeypatch.undo()
    assert deliver(store, tmp_path, limit=1).waiting == 3
    assert deliver(store, tmp_path).delivered == 3
    assert logged(tmp_path)[0] == {("x", number + 1): float(number) for number in range(4)}
    with sqlite3.connect(tmp_path / "mlruns" / "mlflow.db") as connection:
        runs = connection.execute("SELECT name FROM runs ORDER BY name").fetchall()
    connection.close()
    assert runs == [("1970-01",), ("2023-11",), ("2027-01",)]


def test_the_registry_shows_releases_champion_and_challenger(
    home: Path, store: Store, good: Path, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every change, with the files themselves, and each release once; a store that is down is said."""
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/tracking.db")
    monkeypatch.chdir(home)
    models = Models(home, store)
    first, second = models.add(bad, {}), models.add(good, {})
    assert mirror(models, home) == mirror(models, home) == ""
    client = MlflowClient(f"sqlite:///{home}/tracking.db")

    def aliases() -> dict[str, str]:
        return {
            alias: client.get_model_version(REGISTERED, number).tags["release"]
            for alias, number in client.get_registered_model(REGISTERED).aliases.items()
        }

    assert aliases() == {"champion": first, "challenger": second}
    models.promote(second, "better")
    assert mirror(models, home) == ""
    assert aliases() == {"champion": second}
    versions = client.search_model_versions(f"name = '{REGISTERED}'")
    assert sorted(v.tags["release"] for v in versions) == sorted([first, second])
    (own,) = (v for v in versions if v.tags["release"] == second)
    copy = client.download_artifacts(own.run_id, "release", str(home))
    assert verify(Path(copy)) == second
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert "cannot log there" in mirror(models, home)

"""A platform's day, end to end: server, worker, MLflow and simulated clusters, moved by schedules alone."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.faults import SIMULATOR, Suite, account, first_champion, misled, small_platform
from flows import loop
from flows.service import free_ports
from mfcp.data.log.tables import read_tables
from mfcp.platform.releases.models import Models
from mfcp.platform.simulation.world import World
from mfcp.platform.state.home import open_store, settings
from mfcp.release.model import Release

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("prefect")]
TESTED = 30  # tasks that neither release may have seen
BEGUN = {"Pending", "Running", "Completed"}
PATIENCE_S = 400.0  # for each step, on a machine that is at something else as well


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Variables that tell Prefect where this platform's server is do not outlive it."""
    with mock.patch.dict(os.environ):
        yield


def scheduled(suite: Suite, name: str) -> Counter[str]:
    """States of the runs of a flow that its schedule made, as Prefect's API tells them."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    def states(client: loop.SyncPrefectClient) -> Counter[str]:
        deployment = client.read_deployment_by_name(loop.FLOWS[name]).id
        found = client.read_flow_runs(deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment])))
        return Counter(one.state.name for one in found if one.auto_scheduled and one.state)

    return suite.ask(states)


def test_scheduled_rounds_a_scheduled_training_and_a_promotion(tmp_path: Path) -> None:
    """The first champion learned from a log with its clusters mixed up; what the training makes of the true log of
    the same clusters must be found better, on tasks that neither has seen.
    """
    promotion = {"rounds": 60, "tasks": 5, "resamples": 400, "least_tasks": TESTED}
    simulator = SIMULATOR | {"per_hour": 12.0, "delivery_hours": 3.0, "days_between_outages": 1000.0}
    checkout, home = small_platform(tmp_path, {"simulator": simulator, "promote": promotion})
    history = World(settings(home).section("platform").simulator, home / "simulator").history()
    store = open_store(home)
    port, mlflow_port = free_ports(2)
    training = ThreadPoolExecutor(1).submit(first_champion, home, misled(history))  # while the services start
    with loop.platform(checkout, home, port, mlflow_port, print) as (parts, _):
        suite = Suite(home, parts, port)
        suite.schedule({"ingest": 25.0, "match": 20.0})
        first = training.result()
        suite.until(
            lambda: (
                sum(rows.get("tasks", 0) for rows in store.deliveries()["rows"]) > len(history["tasks"]) + 2 * TESTED
            ),
            "log of new tasks",
            PATIENCE_S,
        )
        suite.schedule({"retrain": 12.0, "ingest": 0.0})  # two cores are enough for one of them
        suite.until(lambda: set(scheduled(suite, "retrain")) & BEGUN, "training", PATIENCE_S)
        suite.schedule({"retrain": 0.0})
        suite.until(lambda: scheduled(suite, "retrain")["Completed"], "end of the training", PATIENCE_S)
        suite.until(lambda: store.rounds(1)["version"].iloc[0] != first, "round by the promoted one", PATIENCE_S)
        assert scheduled(suite, "match")["Completed"] >= 2
        assert not set(scheduled(suite, "match")) & {"Failed", "Crashed"}
        assert not set(scheduled(suite, "retrain")) & {"Failed", "Crashed"}
        judged = dict(store.events("verdict")["content"].iloc[0])
        second = judged["challenger"]
        assert (judged["promote"], judged["champion"]) == (True, first)
        assert judged["why"].startswith("better: penalised excess")
        assert {first, second} <= set(store.rounds()["version"])
        releases = [Release.load(home / "models" / version) for version in (first, second)]
        log = set(read_tables(home / "work" / "data" / "log")["tasks"]["task_id"])  # as it was trained on
        assert len(log - releases[0].learned_from - releases[1].learned_from) >= TESTED
        suite.finish(("match",))

    assert not suite.broken
    crowned = store.champions()["version"].to_list()
    assert crowned[:2] == [first, second]
    champion = Models(home, store).champion()
    assert champion is not None
    assert champion.version == crowned[-1] != first
    found = account(home)
    assert found["once"] == found["in"] > TESTED
    assert (found["twice"], found["lost"], found["aside"]) == (0, 0, 0)
    assert found["half"] == []  # what only an ingest and a monitor more would bring to its end, test_faults.py sees
    with closing(sqlite3.connect(home / "mlruns" / "mlflow.db")) as tracked:
        names = {row[0] for row in tracked.execute("SELECT DISTINCT key FROM metrics")}
    assert names >= {"round.makespan", "ingest.rows", "retrain.seconds", "promotion.difference", "event.promote"}

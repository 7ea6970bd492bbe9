"""A small simulated platform, and what comes back from it."""

import pandas as pd

from mfcp.platform.intake.inbox import read_delivery
from mfcp.platform.intake.merging import merge
from mfcp.platform.simulation.simulator import Simulator
from mfcp.platform.simulation.world import HOUR, SimulatorSettings, number_of
from mfcp.platform.state.store import Store

CLUSTERS = ("north-k80x8", "meridian-a10x4", "harbour-v100x2")


SETTINGS = SimulatorSettings(
    history=30,
    families=("bert", "distilbert"),
    newcomers=("distilbert",),
    clusters=CLUSTERS,
    per_hour=4,
    speed=HOUR,
    trial_clusters=2,
    trial_runs=3,
    delivery_hours=1,
    degrades_on=0.5,
)


def store_of(home):
    return Store(f"sqlite:///{home}/platform.db")


def assign(store, cluster=lambda j: CLUSTERS[j % 3]):
    """Assign every task that waits, by its place."""
    waiting = store.pending()["tasks"]["task_id"]
    if len(waiting):
        plan = pd.DataFrame({"task_id": waiting, "cluster_id": [cluster(number_of(t)) for t in waiting]})
        assert store.assign({"version": "v", "tasks": len(plan)}, plan) is not None


def delivered(home):
    """The log that all deliveries make; nothing of it may be refused, nor may two say different things of one row."""
    found = {}
    for folder in sorted((home / "inbox").iterdir()):
        for name, table in read_delivery(folder).items():
            found.setdefault(name, []).append(table)
    merged = merge({}, {name: pd.concat(pieces, ignore_index=True) for name, pieces in found.items()})
    assert not merged.refused
    return merged.log


def drain(home, store, settings=SETTINGS):
    """Let everything that was submitted come back, with no new tasks."""
    simulator = Simulator(home, store, settings.model_copy(update={"per_hour": 1e-6}))
    for _ in range(3):
        simulator.step(1000)
        assign(store)
    simulator.step(10_000)
    return simulator


def assigned_runs(log):
    runs = log["runs"]
    own = runs[runs["task_id"].map(number_of).ge(0) & (runs["attempt"] == SETTINGS.trial_runs + 1)]
    return own.sort_values("run_id", ignore_index=True)

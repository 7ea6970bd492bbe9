"""Assigned tasks whose model is the command that runs them, and a runner for them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from platform_stores import url

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.running.runner import Runner
from mfcp.platform.state.store import Store

PREDICTED = {"seconds": 2.0, "seconds_low": 1.0, "seconds_high": 3.0}
CERTAIN = dict.fromkeys(("reliability", "reliability_low", "reliability_high"), 0.9)


def assign(store: Store, plan: dict[str, tuple[str, str]], limits: dict[str, dict[str, float]] | None = None) -> None:
    """Tasks by name → (cluster, command), submitted, some with limits of their own, and matched."""
    for name, (_, command) in plan.items():
        first, _, rest = command.partition(" ")
        told = dict(zip(("model", "family"), rest.split(), strict=False)) if first == "take" else {"model": command}
        row = {column.name: None for column in TASKS.columns} | {"task_id": name, "family": "succeeded", **told}
        store.submit({"tasks": coerce(TASKS, pd.DataFrame([row], dtype=object)).frame}, (limits or {}).get(name))
    cells = [{"task_id": name, "cluster_id": cluster, **PREDICTED, **CERTAIN} for name, (cluster, _) in plan.items()]
    assert store.assign({"version": "v", "tasks": len(plan)}, pd.DataFrame(cells))


def new_store(home: Path) -> Store:
    home.mkdir(parents=True, exist_ok=True)
    return Store(url(home), wait_s=10)


def runner(
    home: Path, executors: dict[str, dict[str, object]], store: Store | None = None, **settings: object
) -> Runner:
    """A runner of a platform; simulated clusters get what `take` in a plan says."""
    simulated = all(executor["kind"] == "simulated" for executor in executors.values())
    clusters = {name: ClusterSettings(executor=executor) for name, executor in executors.items()}
    told = {"command": "take {model} {family}" if simulated else "sh -c {model}", "deliver_s": 0.0, "health_s": 0.0}
    return Runner(home, store or Store(url(home), wait_s=10), clusters, JobSettings(**{**told, **settings}))  # type: ignore[arg-type]

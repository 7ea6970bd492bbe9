"""Runs before there is a release, on clusters that only take time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from flows.first_runs import first_runs
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store


def test_a_run_that_never_began_is_tried_again_on_its_cluster_and_given_up_in_the_end(tmp_path: Path) -> None:
    rows = [{column.name: None for column in TASKS.columns} | {"task_id": name} for name in ("a", "b")]
    tables = {"tasks": coerce(TASKS, pd.DataFrame(rows, dtype=object)).frame}
    clusters = {
        name: ClusterSettings(executor={"kind": "simulated", "folder": str(tmp_path / name), "speed": 40.0})
        for name in ("busy", "free")
    }
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "down").write_text("drained")  # the first task runs, and the second one waits in vain
    run = JobSettings(
        command="take 60", poll_s=0.02, move_s=0.1, deliver_s=0.0, health_s=0.0, retry={"times": 2},
    )  # fmt: skip
    said: list[str] = []
    count = first_runs(tmp_path / "home", tables, clusters, run, say=said.append)
    store = Store(f"sqlite:///{tmp_path / 'home' / 'first' / 'platform.db'}")
    ends = Counter((row["cluster_id"], row["status"]) for row in Attempts(store).of())
    assert ends == {("busy", "succeeded"): 1, ("busy", "lost"): 1 + run.retry.times, ("free", "succeeded"): 2}
    assert count == sum(ends.values())

"""Runs before there is a release: tasks on clusters of one's choice, whose rows are a platform's first log.

`python -m flows.first_runs --home H --tasks T` runs each task of a table on every real cluster of the platform.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mfcp.data.log.tables import Tables, read_new_tasks
from mfcp.data.log.zoo_tasks import with_zoo_models
from mfcp.errors import SettingsError, guarded
from mfcp.files import sqlite_url
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.running.runner import Runner
from mfcp.platform.state.home import home_folder, settings
from mfcp.platform.state.store import Store


def first_runs(
    home: Path,
    tables: Tables,
    clusters: Mapping[str, ClusterSettings],
    run: JobSettings,
    *,
    each: int = 0,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> int:
    """Run tasks, once on each of some clusters, and leave their rows in the inbox; how many runs these were.

    A run that was lost before it began is tried again there, as often as `retry.times` says. A call that was killed is
    gone on with by the next one with the same tasks.

    Args:
        home: the platform's folder; the state is in its folder `first`, so that no round matches these tasks.
        tables: `tasks`, and the graphs.
        clusters, run: as in section platform.
        each: clusters of each task, drawn; 0 for all.
        seed: of what is drawn.
        say: called with a line for the user now and then.

    Raises:
        SettingsError: fewer clusters than `each`, or no command for a task.
    """
    if not 0 <= each <= len(clusters):
        raise SettingsError(f"--each {each}: expected 0 for all, or 1 to {len(clusters)} of {', '.join(clusters)}")
    (home / "first").mkdir(parents=True, exist_ok=True)
    store = Store(sqlite_url(home / "first" / "platform.db"))
    store.submit(tables)
    once = {"retry": run.retry.model_copy(update={"times": 0}), "compare": 0.0}
    runner = Runner(home, store, clusters, run.model_copy(update=once))
    rng, names = random.Random(seed), sorted(clusters)
    rng.shuffle(order := list(tables["tasks"]["task_id"]))
    wanted = [(task, name) for task in order for name in rng.sample(names, each or len(names))]
    runner.plan(wanted)
    total, said, tries = 0, 0, run.retry.times
    while True:
        step = runner.step()
        total += step.over
        if step.over and time.monotonic() - said > 10:
            say(f"first runs: {len(wanted) - step.open} of {len(wanted)} over")
            said = int(time.monotonic())
        if step.idle:
            if not tries or not runner.plan(wanted):
                return total
            tries -= 1
        time.sleep(run.poll_s)


def main() -> None:
    """Run the tasks of a table."""
    parser = argparse.ArgumentParser(prog="python -m flows.first_runs", description=__doc__)
    parser.add_argument("--home", default="", metavar="DIR", help="folder of the platform")
    parser.add_argument("--tasks", type=Path, required=True, metavar="PATH", help="as of mfcp platform submit")
    parser.add_argument("--each", type=int, default=0, metavar="N", help="clusters of each task, drawn (all)")
    options = parser.parse_args()
    home = home_folder(options.home)
    section = settings(home).section("platform")
    if not section.clusters:
        raise SettingsError("platform.clusters names no real cluster; see docs/clusters.md")
    tables = with_zoo_models(read_new_tasks(options.tasks))
    print(f"{first_runs(home, tables, section.clusters, section.run, each=options.each)} runs in {home / 'inbox'}")


if __name__ == "__main__":
    sys.exit(guarded(main))

"""How fast plans become jobs: called by `executors.py speed`."""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from flows.slurm import OwnCluster, OwnSlurm
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.executors.base import Batch, JobLimits
from mfcp.executors.slurm import Slurm
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.running.runner import Runner
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store

CLUSTERS = ("alpha", "beta")


def assign(store: Store, names: list[str]) -> None:
    """A round of these tasks, on both clusters in turn."""
    rows = [{column.name: None for column in TASKS.columns} | {"task_id": name} for name in names]
    store.submit({"tasks": coerce(TASKS, pd.DataFrame(rows, dtype=object)).frame})
    cells = [
        {"task_id": name, "cluster_id": CLUSTERS[n % 2], "seconds": 2.0, "seconds_low": 1.0, "seconds_high": 3.0,
         "reliability": 0.9, "reliability_low": 0.8, "reliability_high": 1.0}
        for n, name in enumerate(names)
    ]  # fmt: skip
    store.assign({"version": "speed", "tasks": len(names)}, pd.DataFrame(cells))


def cpu() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def speed() -> int:
    """Print what each takes."""
    root = Path(tempfile.mkdtemp(prefix="mfcp-speed-"))
    try:
        # Nodes of many cores, as Slurm is told: jobs that sleep need none.
        with OwnSlurm(root / "slurm", [OwnCluster(name, cpus=40, memory_mib=40000) for name in CLUSTERS]) as slurm:
            _rounds(root, slurm)
            _thousand(root, slurm)
            _watched(root, slurm)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0


def _runner(root: Path, home: Path, slurm: OwnSlurm) -> Runner:
    home.mkdir()
    clusters = {
        name: ClusterSettings(
            executor={"kind": "slurm", "folder": str(root / f"spool-{name}"), "conf": str(slurm.conf(name))}
        )
        for name in CLUSTERS
    }
    settings = JobSettings(command="sleep 2", seconds=60.0, memory_bytes=50 << 20, poll_s=0.25, health_s=5.0)
    return Runner(home, Store(f"sqlite:///{home / 'platform.db'}"), clusters, settings)


def _rounds(root: Path, slurm: OwnSlurm) -> None:
    took = []
    runner = _runner(root, root / "rounds", slurm)
    for number in range(5):
        assign(runner.store, [f"r{number}-{n}" for n in range(20)])
        begin, begun = time.monotonic(), 0
        while begun < 20:
            begun += runner.step().begun
            time.sleep(runner.settings.poll_s)
        took.append(time.monotonic() - begin)
        while runner.step().open:
            time.sleep(0.5)
    print(f"20 tasks on two clusters, from the round's commit to all running: {median(took):.1f} s "
          f"(five rounds: {', '.join(f'{one:.1f}' for one in took)})", flush=True)  # fmt: skip


def _thousand(root: Path, slurm: OwnSlurm) -> None:
    runner = _runner(root, root / "thousand", slurm)
    assign(runner.store, [f"k-{n}" for n in range(1000)])
    begin, used = time.monotonic(), cpu()
    handed = runner.step().handed
    print(f"{handed} tasks planned, handed in and released: {time.monotonic() - begin:.2f} s, "
          f"{cpu() - used:.2f} s of processor time", flush=True)  # fmt: skip
    attempts = Attempts(runner.store)
    attempts.cancel([row["task_id"] for row in attempts.open()])
    begin = time.monotonic()
    while runner.step().open:
        time.sleep(0.5)
    print(f"all cancelled and over: {time.monotonic() - begin:.1f} s", flush=True)


def _watched(root: Path, slurm: OwnSlurm) -> None:
    executor = Slurm(folder=str(root / "spool-watch"), conf=str(slurm.conf("alpha")))
    batches = [Batch(f"mfcp-watch-{n}", ["true"] * 1000, JobLimits(60.0, 50 << 20)) for n in range(10)]
    jobs = [executor.submit(batch) for batch in batches]
    keys = [key for batch in batches for key in batch.keys]
    for key in keys[:2000]:  # as if they had begun
        (root / "spool-watch" / "claims" / key).write_text('{"at": 1.0}')
    used, own, took = [], [], []
    for _ in range(5):
        begin, before, mine = time.monotonic(), cpu(), time.process_time()
        seen = executor.watch(keys)
        used.append(cpu() - before)
        own.append(time.process_time() - mine)
        took.append(time.monotonic() - begin)
    assert sum(one.stage == "held" for one in seen.values()) == len(keys)
    print(f"{len(keys)} jobs watched by one query: {median(used):.2f} s of processor time ({median(own):.2f} s of it "
          f"here, the rest squeue), {median(took):.2f} s; medians of five", flush=True)  # fmt: skip
    for job in jobs:
        slurm.run("alpha", "scancel", job)

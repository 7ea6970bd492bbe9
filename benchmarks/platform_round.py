"""A round of many tasks on many clusters from database to database, and what a Prefect flow adds to a DVC stage.

    python benchmarks/platform_round.py
    python benchmarks/platform_round.py --overhead

The log is that of the emulated platform, each cluster there four times with a speed of its own, as far as needed; the
release is trained on it with few epochs, since what it has learned does not change what a round costs. Prints seconds
of reading, predicting, matching and writing, medians of five rounds of tasks that the release has not seen, and
whether they are within the goal of 3 s. With --overhead, CPU seconds that the pipeline's flow takes beyond `dvc repro`
when nothing is stale, per stage, with a server running; run it where `dvc status` says that all is up to date.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

sys.path[:0] = [str(Path(__file__).parents[1])]  # flows

GOAL_S, GOAL_CPU_S = 3.0, 1.5
ROUNDS = 5
COPIES = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000, metavar="N")
    parser.add_argument("--clusters", type=int, default=50, metavar="M")
    parser.add_argument("--overhead", action="store_true", help="of the flow instead")
    options = parser.parse_args()
    return overhead() if options.overhead else rounds(options.tasks, options.clusters)


def rounds(tasks: int, clusters: int) -> int:
    from mfcp.platform.deciding import rounds as module
    from mfcp.platform.deciding.rounds import MatchSettings, match_round
    from mfcp.platform.releases.models import Models
    from mfcp.platform.state.store import Store
    from mfcp.release.model import Release

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        tables = platform_log(clusters)
        print(f"training a release for {clusters} clusters …", flush=True)
        release(tables, home / "release")
        store = Store(f"sqlite:///{home}/platform.db")
        models = Models(home, store)
        models.add(home / "release", {})
        took: dict[str, list[float]] = {}
        parts = {"read": (Store, "pending"), "write": (Store, "assign"), "decide": (module, "decide")}
        parts |= {"predict": (Release, "believe"), "champion": (Models, "champion")}
        for name, (owner, attribute) in parts.items():
            setattr(owner, attribute, timed(getattr(owner, attribute), took.setdefault(name, [])))
        gaps, whole = [], []
        for k in range(ROUNDS + 1):
            store.submit(arrivals(tables, tasks, k))
            begin = time.perf_counter()
            report = match_round(store, models, MatchSettings(tasks=tasks))
            whole.append(time.perf_counter() - begin)
            gaps.append(report.gap or 0.0)
            if k == 0:  # compiled code is loaded, tables are in memory
                for seconds in (whole, gaps, *took.values()):
                    seconds.clear()
        took["match"] = [d - p for d, p in zip(took.pop("decide"), took["predict"], strict=True)]
    print(f"{tasks} tasks on {clusters} clusters, seconds, median of {ROUNDS} rounds (largest)")
    for name, seconds in {**took, "in all": whole}.items():
        print(f"  {name:<10}{statistics.median(seconds):8.2f} ({max(seconds):.2f})")
    print(f"  gap to the bound: {statistics.median(gaps):.1%} ({max(gaps):.1%})")
    reached = statistics.median(whole) <= GOAL_S
    print(f"at most {GOAL_S:g} s from database to database: {'reached' if reached else 'missed'}")
    return 0


def platform_log(clusters: int) -> dict[str, Any]:
    """Tables of an emulated log with so many clusters."""
    import pandas as pd

    from mfcp.emulator.platform import emulate
    from mfcp.emulator.settings import EmulatorSettings

    families = ("resnet", "mobilenet_v2", "bert", "convnext", "distilbert", "vit")
    tables = emulate(EmulatorSettings(families=families, tasks=150, runs=(6, 6), pairs=0), 0)
    rng = np.random.default_rng(0)
    own = tables["clusters"]
    machines, runs = [], []
    for k in range(COPIES):
        speed = {name: float(np.exp(rng.normal(0, 0.2))) for name in own["cluster_id"]}
        machines.append(own.assign(cluster_id=own["cluster_id"] + f"-{k}"))
        scale = tables["runs"]["cluster_id"].map(speed)
        copy = tables["runs"].assign(duration_s=tables["runs"]["duration_s"] * scale)
        runs.append(copy.assign(cluster_id=copy["cluster_id"] + f"-{k}", run_id=copy["run_id"] + f"-{k}"))
    kept = pd.concat(machines, ignore_index=True).head(clusters)
    every = pd.concat(runs, ignore_index=True)
    every = every[every["cluster_id"].isin(kept["cluster_id"])].reset_index(drop=True)
    return {**{name: tables[name] for name in ("tasks", "nodes", "edges")}, "clusters": kept, "runs": every}


def release(tables: dict[str, Any], folder: Path) -> None:
    """The shipped method, trained shortly."""
    from mfcp.data.log.validation import validate
    from mfcp.release.fitting import fit_release
    from mfcp.settings import Settings

    content = yaml.safe_load((Path(__file__).parents[1] / "params.yaml").read_text())
    content["pretrain"]["training"] |= {"epochs": 20}
    content["pool"] |= {"pools": "asis"}
    content["matching"] |= {"validation_rounds": 20}
    fit_release(validate(tables, max_bad_share=1.0).tables, Settings(content), folder, data={})


def arrivals(tables: dict[str, Any], count: int, seed: int) -> dict[str, Any]:
    """New tasks with the graphs of known models and work of their own."""
    rng = np.random.default_rng(seed)
    tasks = tables["tasks"].iloc[rng.integers(len(tables["tasks"]), size=count)]
    names = [f"round-{seed}-{j}" for j in range(count)]
    tasks = tasks.assign(task_id=names, samples=np.exp(rng.normal(10, 1, count))).reset_index(drop=True)
    return {"tasks": tasks, "nodes": tables["nodes"], "edges": tables["edges"]}


def timed(function: Any, seconds: list[float]) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        result = function(*arguments, **options)
        seconds.append(time.perf_counter() - begin)
        return result

    return call


def overhead() -> int:
    from flows import checkout, service

    root = Path(__file__).parents[1]
    stages = len(checkout.stages(root))
    plain = [sys.executable, "-m", "dvc", "repro", "--quiet"]
    flow = [sys.executable, "-m", "flows.pipeline"]
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), service.free_ports(1)[0]
        with service.server(home, port):
            environment = service.environment(home, port)
            spent = {name: [cpu(command, root, environment) for _ in range(ROUNDS)] for name, command in
                     {"dvc repro": plain, "flow": flow}.items()}  # fmt: skip
    middle = {name: statistics.median(seconds) for name, seconds in spent.items()}
    for name, seconds in middle.items():
        print(f"{name:<10}{seconds:8.2f} CPU s")
    each = (middle["flow"] - middle["dvc repro"]) / stages
    met = "reached" if each <= GOAL_CPU_S else "missed"
    print(f"{each:.2f} CPU s per stage ({stages} stages); goal {GOAL_CPU_S:g}: {met}")
    return 0


def cpu(command: list[str], root: Path, environment: dict[str, str]) -> float:
    """CPU seconds of a command and all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())

"""What predictions are worth on real runs: called by `executors.py loop`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from flows.first_runs import first_runs
from flows.own_clusters import OWN, sections
from flows.slurm import OwnSlurm
from flows.zoo_tasks import draw
from mfcp.arrays import Floats, Ints
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import Tables, find_table, read_table
from mfcp.platform.settings import PlatformSettings
from mfcp.release.decision import decide
from mfcp.release.fitting import fit_release
from mfcp.release.model import Release
from mfcp.settings import Settings

PARAMS = Path(__file__).parents[1] / "params.yaml"
FIRST, ROUND = 8, 4  # tasks that the first release knows; tasks of a round
DRAWS = 10_000
RANDOM = 500  # random plans of a round, whose mean counts


def loop(rounds: int, seed: int, keep: Path | None) -> int:
    """Run tasks on two Slurm clusters, and print what releases that learn from more and more of them are worth.

    Every task runs once on each cluster, so that each plan's makespan is one of real runs. The releases learn in the
    order of the tasks: that of a round knows nothing of the round's tasks.
    """
    root = Path(tempfile.mkdtemp(prefix="mfcp-loop-"))
    tables = draw(range(FIRST + rounds * ROUND), seed)
    home = keep or root / "home"
    begin = time.monotonic()
    if not (home / "inbox").is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with OwnSlurm(root / "slurm", OWN) as slurm:
            section = PlatformSettings.model_validate(sections(slurm)["platform"])
            runs = first_runs(home, tables, section.clusters, section.run, seed=seed, say=lambda text: None)
        print(f"{runs} runs on two Slurm clusters in {(time.monotonic() - begin) / 60:.0f} minutes", flush=True)
    log = {**tables, **_delivered(home)}
    try:
        _tell(log, rounds, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0


def _delivered(home: Path) -> Tables:
    """Runs and clusters of all deliveries."""
    found: dict[str, list[pd.DataFrame]] = {"runs": [], "clusters": []}
    for folder in sorted((home / "inbox").iterdir()):
        for name, own in found.items():
            if path := find_table(folder, name):
                own.append(read_table(path, SCHEMA[name]))
    whole = {name: pd.concat(own, ignore_index=True) for name, own in found.items()}
    return {"runs": whole["runs"], "clusters": whole["clusters"].drop_duplicates("cluster_id", ignore_index=True)}


def _tell(log: Tables, rounds: int, root: Path) -> None:
    runs = log["runs"]
    good = runs[runs["status"] == "succeeded"]
    steps = good.pivot_table(index="task_id", columns="cluster_id", values="step_time_s")
    walls = good.pivot_table(index="task_id", columns="cluster_id", values="duration_s")
    order = [task for task in log["tasks"]["task_id"] if task in steps.index and steps.loc[task].notna().all()]
    ratio = (steps["beta"] / steps["alpha"]).loc[order].to_numpy()
    print(f"{len(order)} of {len(log['tasks'])} tasks succeeded on both; beta's steps take "
          f"{np.exp(np.log(ratio).mean()):.1f} times those of alpha, "
          f"{ratio.min():.1f} to {ratio.max():.1f}")  # fmt: skip
    places = [slice(FIRST + n * ROUND, FIRST + (n + 1) * ROUND) for n in range(rounds)]
    rng = np.random.default_rng(0)
    made: list[dict[str, float]] = []
    for number, place in enumerate(places):
        known, new = order[: place.start], order[place]
        if len(new) < ROUND:
            break
        release = _release(log, known, root / f"release-{number}")
        made.append(_round(release, _of(log, new), walls.loc[new], rng) | {"known": len(known)})
        print(f"round {number + 1}: {len(known)} tasks known, makespan {made[-1]['ours']:.0f} s, at random "
              f"{made[-1]['random']:.0f}, fastest first {made[-1]['fastest']:.0f}", flush=True)  # fmt: skip
    table = pd.DataFrame(made)
    for rival, words in (("random", "random"), ("fastest", "fastest-first")):
        ratio = np.log((table["ours"] / table[rival]).to_numpy())
        print(f"makespan against {words} nomination: {_interval(ratio, rng)}, paired over {len(table)} rounds")
    _errors(log, order, places[: len(table)], steps, root, rng)


def _errors(
    log: Tables, order: list[str], places: list[slice], steps: pd.DataFrame, root: Path, rng: np.random.Generator
) -> None:
    """How far predicted step times of tasks that were not run yet are off: by the first release, and by the newest."""
    before, after = [], []
    first = _release(log, order[: places[0].start], root / "steps-0", whole=False)
    for number, place in enumerate(places[1:], 1):
        newest = _release(log, order[: place.start], root / f"steps-{number}", whole=False)
        for release, errors in ((first, before), (newest, after)):
            errors += _off(release, _of(log, order[place]), steps.loc[order[place]]).tolist()
    old, new = np.array(before), np.array(after)
    print(f"step times of {len(old)} tasks not run yet are off by a factor of {np.exp(old.mean()):.2f} by the first "
          f"release ({places[0].start} tasks known), {np.exp(new.mean()):.2f} by the newest one before each "
          f"({places[1].start} to {places[-1].start})")  # fmt: skip
    draws = rng.integers(0, len(old), (DRAWS, len(old)))
    ratio = new[draws].mean(axis=1) / old[draws].mean(axis=1)
    print(f"mean error of log time, newest over first: {new.mean() / old.mean():.2f} "
          f"[{np.quantile(ratio, 0.025):.2f}, {np.quantile(ratio, 0.975):.2f}], paired over tasks")  # fmt: skip


def _off(release: Release, tables: Tables, steps: pd.DataFrame) -> Floats:
    """(n,) mean absolute error of log step time of each task over the clusters."""
    tasks = tables["tasks"]
    seconds = pd.DataFrame(release.predict(tables).T[0].T, index=list(steps.index), columns=list(release.cluster_id))
    count = (tasks["samples"].astype(float) / tasks["batch_size"].astype(float)).to_numpy()
    off: Floats = np.abs(np.log(seconds[list(steps)].div(count, axis=0) / steps)).mean(axis=1).to_numpy()
    return off


def _interval(values: Floats, rng: np.random.Generator) -> str:
    """Geometric mean of ratios, with a 95 % bootstrap interval."""
    draws = values[rng.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    low, high = np.exp(np.quantile(draws, [0.025, 0.975]))
    return f"{np.exp(values.mean()):.2f} [{low:.2f}, {high:.2f}]"


def _of(log: Tables, tasks: list[str]) -> Tables:
    """Tasks with their graphs, in this order."""
    own = log["tasks"].set_index("task_id", drop=False).loc[tasks].reset_index(drop=True)
    graphs = set(own["graph_id"])
    return {"tasks": own, **{name: log[name][log[name]["graph_id"].isin(graphs)] for name in ("nodes", "edges")}}


def _release(log: Tables, known: list[str], folder: Path, *, whole: bool = True) -> Release:
    """What is learned from the runs of these tasks: of whole runs, or of step times alone."""
    content: dict[str, Any] = Settings.load(PARAMS).content
    content = {**content, "pool": {**content["pool"], "pools": "asis"}}
    runs = log["runs"][log["runs"]["task_id"].isin(known)]
    runs = runs if whole else runs.assign(duration_s=np.nan)
    tables = {**_of(log, known), "clusters": log["clusters"], "runs": runs.reset_index(drop=True)}
    fit_release(tables, Settings(content), folder, data={"log": "own Slurm clusters"})
    return Release.load(folder)


def _round(release: Release, tables: Tables, walls: pd.DataFrame, rng: np.random.Generator) -> dict[str, float]:
    """Makespans of real runs (s) of our plan, of random ones and of each task on the cluster predicted fastest."""
    names = list(release.cluster_id)
    real = walls[names].to_numpy()
    decision = decide(release, tables)
    ours = np.array([names.index(name) for name in decision.cluster_id])
    fastest = release.predict(tables).T[0].argmin(axis=0)
    drawn = [_makespan(rng.integers(0, len(names), len(real)), real) for _ in range(RANDOM)]
    return {"ours": _makespan(ours, real), "fastest": _makespan(fastest, real), "random": float(np.mean(drawn))}


def _makespan(plan: Ints, seconds: Floats) -> float:
    return float(max(seconds[plan == cluster, cluster].sum() for cluster in range(seconds.shape[1])))

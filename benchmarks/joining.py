"""A cluster that has just joined: what a release of its few runs predicts for families that nobody has run.

    python benchmarks/joining.py --data DIR                              15, 20 and 50 runs beside all: ten minutes
    python benchmarks/joining.py --data DIR --clusters NAME --seeds 0    one cluster, one draw

DIR is a folder in the log schema; of phases, tasks of the most common one are taken. Every cluster in turn keeps the
runs of so many tasks, drawn at random, and a release is made. It is judged on a fifth of the families, which it has not
seen: MAPE there, over clusters and draws alike, and the share of 80 % intervals that hold. The ratio is to the release
of all runs, with a 95 % bootstrap over clusters and draws.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from scipy.special import stdtrit

from benchmarks.records import folder_of, whole, wholes, write_records
from benchmarks.workers import run
from mfcp.arrays import Floats
from mfcp.data.log.tables import Tables, read_tables
from mfcp.data.pool.logged import logged_pool
from mfcp.errors import DataError, guarded
from mfcp.methods.base import register_members
from mfcp.release.fitting import fit_release
from mfcp.settings import Settings

ALL = 0  # runs of a cluster that has joined long ago
UNSEEN, DRAWS = 0.2, 2000
STATE: dict[str, Any] = {}  # what worker processes have by being forked


def prepare(folder: Path, most: int) -> None:
    """Read the log once, and take at most so many tasks, drawn at random.

    Raises:
        DataError: fewer than three clusters with enough tasks.
    """
    tables = read_tables(folder)
    tasks = tables["tasks"]
    phases = tasks["phase"].mode()
    tasks = tasks[tasks["phase"].isin(phases)] if len(phases) else tasks
    tables = _with(tables, np.sort(np.random.default_rng(0).permutation(tasks["task_id"].to_numpy(str))[:most]))
    pool = logged_pool(tables)
    if len(pool.cluster_id) < 3:
        raise DataError(f"{folder}: {len(pool.cluster_id)} clusters with enough tasks, 3 needed to leave one out")
    STATE.update(tables=tables, pool=pool)


def _with(tables: Tables, tasks: Any) -> Tables:
    """The log of some tasks."""
    own = tables["tasks"]["task_id"].isin(tasks)
    graphs = set(tables["tasks"].loc[own, "graph_id"].dropna())
    kept = {"clusters": tables["clusters"]}
    for name in ("tasks", "runs", "nodes", "edges"):
        if name in tables:
            key, wanted = ("graph_id", graphs) if name in ("nodes", "edges") else ("task_id", tasks)
            kept[name] = tables[name][tables[name][key].isin(wanted)]
    return {name: table.reset_index(drop=True) for name, table in kept.items()}


def joined(cluster: str, runs: int, seed: int) -> tuple[Floats, Floats]:
    """(M,) MAPE in per cent and the share of 80 % intervals that hold, the cluster's first."""
    pool, tables = STATE["pool"], STATE["tables"]
    rng = np.random.default_rng(seed)
    names = np.unique(pool.family)
    unseen = np.isin(pool.family, rng.choice(names, max(1, round(UNSEEN * len(names))), replace=False))
    k = int(np.flatnonzero(pool.cluster_id == cluster)[0])
    ran = rng.permutation(pool.source_task[pool.allowed[k] & ~unseen])[: runs or None]
    log = _with(tables, pool.source_task[~unseen])
    there = (log["runs"]["cluster_id"] != cluster) | log["runs"]["task_id"].isin(ran)
    log["runs"] = log["runs"][there].reset_index(drop=True)
    with tempfile.TemporaryDirectory() as folder:
        release = fit_release(log, STATE["settings"], Path(folder) / "release", data={"name": "benchmark"})
    asked = _with(tables, pool.source_task[unseen])
    if pool.per_sample:
        asked["tasks"] = asked["tasks"].assign(samples=1.0)
    belief = release.predict(asked)
    every = [str(name) for name in pool.cluster_id]
    order = [cluster, *(name for name in every if name != cluster)]
    if missing := [name for name in order if name not in release.cluster_id]:
        raise DataError(f"{runs} runs on {cluster}: too few for a release, which left out {', '.join(missing)}")
    rows = [release.cluster_id.index(name) for name in order]
    at = {name: j for j, name in enumerate(pool.source_task)}
    columns = [at[name] for name in asked["tasks"]["task_id"]]
    truth = pool.T[np.ix_([every.index(name) for name in order], columns)]
    off, sd = np.log(belief.T[0][rows] / truth), belief.log_sd[0][rows]
    known = np.isfinite(off)
    inside = np.abs(off) <= stdtrit(max(release.groups - 1, 1), 0.9) * sd
    means = [np.where(known, x, 0.0).sum(axis=1) / known.sum(axis=1) for x in (np.abs(np.expm1(off)), inside)]
    return 100 * means[0], means[1]


def judged(mape: dict[int, Floats], holds: dict[int, Floats]) -> list[dict[str, Any]]:
    """A row for each number of runs, of (D, M) errors and shares of D draws, the joining cluster's first."""
    rng, count, full = np.random.default_rng(0), len(mape[ALL]), mape[ALL][:, 0]
    draws = rng.integers(count, size=(DRAWS, count))
    rows = []
    for runs, values in mape.items():
        own = values[:, 0]
        drawn = own[draws].mean(axis=1) / full[draws].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        rows.append(
            {"runs": runs or None, "mape": float(own.mean()), "holds": float(holds[runs][:, 0].mean()),
             "others": float(values[:, 1:].mean()), "ratio": float(own.mean() / full.mean()),
             "low": float(low), "high": float(high), "n": count}
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=folder_of, required=True)
    parser.add_argument(
        "--runs", type=partial(wholes, least=1), default=[15, 20, 50], metavar="N,…", help="tasks that it has run"
    )
    parser.add_argument("--clusters", type=lambda text: text.split(","), metavar="NAME,…", help="default: each in turn")
    parser.add_argument("--seeds", type=wholes, default=[0, 1], metavar="N,…", help="draws of runs and families")
    parser.add_argument("--tasks", type=whole, default=400, metavar="N", help="of the log, at most")
    parser.add_argument("--processes", type=whole, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    register_members()
    STATE["settings"] = Settings.load(Path(__file__).parents[1] / "params.yaml")
    prepare(arguments.data, arguments.tasks)
    every = [str(name) for name in STATE["pool"].cluster_id]
    chosen = arguments.clusters or every
    if unknown := [name for name in chosen if name not in every]:
        raise DataError(f"no cluster {unknown[0]!r} with enough tasks; there are {', '.join(every)}")
    sizes = [*arguments.runs, ALL]
    jobs = [(cluster, runs, seed) for runs in sizes for cluster in chosen for seed in arguments.seeds]
    answers = dict(zip(jobs, run(joined, jobs, arguments.processes, "releases"), strict=True))
    mape, holds = (
        {runs: np.stack([answer[k] for job, answer in answers.items() if job[1] == runs]) for runs in sizes}
        for k in (0, 1)
    )
    rows = judged(mape, holds)
    print(f"{'runs':>4}  {'MAPE %':>7} {'holds':>6} {'others %':>8}  MAPE over that of all runs")
    for r in rows:
        print(f"{r['runs'] or 'all':>4}  {r['mape']:7.1f} {r['holds']:6.0%} {r['others']:8.1f}  "
              f"{r['ratio']:.2f} [{r['low']:.2f}, {r['high']:.2f}]")  # fmt: skip
    if arguments.json is not None:
        write_records(arguments.json, rows)


if __name__ == "__main__":
    sys.exit(guarded(main))

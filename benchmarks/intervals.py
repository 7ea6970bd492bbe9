"""How often intervals of releases hold: on small logs made by formula, and on the log of a pipeline.

Tasks are left out of a log, a release learns the rest, and its intervals are held against the logged durations of those
left out; known tasks are held against their own. Prints a line per log.

    python benchmarks/intervals.py [--logs 24] [--data data/valid]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA, SUCCEEDED
from mfcp.data.log.tables import Tables, read_tables
from mfcp.errors import guarded
from mfcp.release.fitting import fit_release
from mfcp.settings import Settings

PARAMS = Settings.load(Path(__file__).parents[1] / "params.yaml")
SIZES = ((10, 3), (8, 2), (26, 7))


def made(tasks: int, clusters: int, seed: int, runs: int = 8) -> Tables:
    """A log whose times follow FLOPs, samples and an affinity of clusters, with 12 % that nothing explains."""
    rng = np.random.default_rng(seed)
    flops, params = np.exp(rng.normal(22.5, 1.4, tasks)), np.exp(rng.normal(17, 1.2, tasks))
    batch, samples = 2 ** rng.integers(4, 8, tasks), 1e6 * np.exp(rng.normal(0, 0.6, tasks))
    shape = np.stack([(np.log(flops) - 22.5) / 1.4, (np.log(params) - 17) / 1.2])
    seconds = 0.8 * np.log(flops) + np.log(samples) - 0.05 * np.log(batch) - 24
    seconds = seconds + rng.normal(0, 0.25, (clusters, 2)) @ shape + rng.normal(0, 0.12, (clusters, tasks))
    seconds -= rng.normal(0, 0.5, (clusters, 1))
    i, j, attempt = (index.ravel() for index in np.indices((clusters, tasks, runs)))
    good = rng.random(len(i)) < 0.97 - 0.05 * i / clusters
    columns = {
        "tasks": {
            "task_id": [f"t{k}" for k in range(tasks)], "model": [f"net{chr(97 + k)}" for k in range(tasks)],
            "batch_size": batch, "flops": flops, "param_count": params.round(), "samples": samples.round(),
        },
        "clusters": {"cluster_id": [f"c{k}" for k in range(clusters)]},
        "runs": {
            "run_id": [f"r{k}" for k in range(len(i))], "task_id": [f"t{k}" for k in j], "attempt": attempt + 1,
            "cluster_id": [f"c{k}" for k in i], "status": np.where(good, SUCCEEDED, "failed"),
            "duration_s": np.exp(seconds[i, j] + rng.normal(0, 0.08, len(i))),
        },
    }  # fmt: skip
    return {name: coerce(SCHEMA[name], pd.DataFrame(cells)).frame for name, cells in columns.items()}


def judged(tables: Tables, out: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which 80 % and 95 % intervals hold what was left out, and the absolute log errors of known tasks."""
    kept = {name: table[~table["task_id"].isin(out)] if "task_id" in table else table for name, table in tables.items()}
    kept = {name: table.reset_index(drop=True) for name, table in kept.items()}
    runs = tables["runs"][tables["runs"]["status"] == SUCCEEDED]
    logged = runs.groupby(["cluster_id", "task_id"])["duration_s"].mean().unstack()
    with tempfile.TemporaryDirectory() as folder:
        release = fit_release(kept, PARAMS, Path(folder) / "release", data={"name": "benchmark"})
    asked = tables["tasks"][tables["tasks"]["task_id"].isin(out)]
    belief = release.predict({**tables, "tasks": asked})
    off = np.log(logged.reindex(index=release.cluster_id, columns=asked["task_id"]).to_numpy() / belief.T[0])
    known = np.isfinite(off)
    narrow = stdtrit(max(release.groups - 1, 1), 0.9)
    inside = [(np.abs(off) <= width * belief.log_sd[0])[known] for width in (narrow, release.width)]
    own = kept["tasks"]
    own = own[own["task_id"].isin(logged.columns) & own["task_id"].isin(release.learned_from)]
    again = release.predict({**tables, "tasks": own})
    error = np.abs(np.log(logged.reindex(index=release.cluster_id, columns=own["task_id"]).to_numpy() / again.T[0]))
    return inside[0], inside[1], error[np.isfinite(error)]


def show(name: str, found: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
    narrow, wide, error = (np.concatenate(part) for part in zip(*found, strict=True))
    print(
        f"{name:<22} {narrow.mean():>8.3f} {wide.mean():>8.3f} {np.median(error):>12.5f} {len(narrow):>7}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=24, help="small logs of each size (24)")
    parser.add_argument("--data", type=Path, help="a validated log; 45 of its tasks are left out, three times")
    options = parser.parse_args()
    tables = read_tables(options.data) if options.data is not None else None
    print(f"{'log':<22} {'80 %':>8} {'95 %':>8} {'known |log|':>12} {'pairs':>7}")
    for tasks, clusters in SIZES:
        found = []
        for seed in range(options.logs):
            small = made(tasks, clusters, seed)
            found.append(judged(small, np.random.default_rng(seed).choice(small["tasks"]["task_id"], 2, replace=False)))
        show(f"{tasks} tasks x {clusters}", found)
    if tables is not None:
        names = tables["tasks"]["task_id"].to_numpy(str)
        draws = [np.random.default_rng(seed).choice(names, 45, replace=False) for seed in range(3)]
        show(str(options.data), [judged(tables, out) for out in draws])


if __name__ == "__main__":
    sys.exit(guarded(main))

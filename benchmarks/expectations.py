"""What the checkpoint of a large table costs beside validation without it: medians of five, in one process.

python benchmarks/expectations.py [--rows 100000,1000000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from mfcp.data.log.expectations import Expectations
from mfcp.data.log.tables import Tables
from mfcp.data.log.validation import validate

TIMES = 5


def log(rows: int) -> Tables:
    rng = np.random.default_rng(0)
    tasks, clusters = [f"t{k}" for k in range(1000)], [f"c{k}" for k in range(50)]
    runs = {
        "run_id": [f"r{k}" for k in range(rows)], "task_id": np.array(tasks)[rng.integers(0, 1000, rows)],
        "cluster_id": np.array(clusters)[rng.integers(0, 50, rows)], "duration_s": rng.lognormal(size=rows),
        "status": "succeeded", "attempt": 1, "started_at": pd.Timestamp("2026-01-01", tz="UTC"),
    }  # fmt: skip
    return {
        "tasks": pd.DataFrame({"task_id": tasks}), "clusters": pd.DataFrame({"cluster_id": clusters}),
        "runs": pd.DataFrame(runs),
    }  # fmt: skip


def seconds(tables: Tables, context: Expectations | None) -> float:
    begin = time.perf_counter()
    validate(tables, max_bad_share=0.0, expectations=context)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000", help="sizes of table runs")
    options = parser.parse_args()
    print(f"{'rows':>10} {'schema [s]':>11} {'with gx [s]':>12} {'docs [s]':>9} {'peak [MiB]':>11}")
    with tempfile.TemporaryDirectory() as folder:
        context = Expectations(Path(folder) / "gx")
        seconds(log(100), context)  # imports the package
        for rows in map(int, options.rows.split(",")):
            tables = log(rows)
            alone, both = zip(*((seconds(tables, None), seconds(tables, context)) for _ in range(TIMES)), strict=True)
            begin = time.perf_counter()
            context.publish()
            docs = time.perf_counter() - begin
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{rows:>10} {median(alone):>11.2f} {median(both):>12.2f} {docs:>9.2f} {peak:>11.0f}", flush=True)


if __name__ == "__main__":
    main()

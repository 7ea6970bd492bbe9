"""Ingestion and validation of logs of any size: processor time, rows a second, memory, beside `pandas.read_parquet`.

    python benchmarks/ingest.py [--runs 1000000 --runs 10000000] [--log DIR]

Each size is generated (`--log` keeps it) and goes through the stages `ingest` and `validate` of the pipeline as they
are, Great Expectations and its Data Docs among them, and through `mfcp check`, which copies and validates it in one;
each in a process of its own with its imports. Memory is that of a command and its workers together at its peak
(proportional set size, ten times a second). pandas only reads the runs, and only up to `--pandas` rows, for it has them
in memory all at once. A row of 0 runs is what Great Expectations and MLflow take for nothing: the imports, a new
context with its Data Docs, and a new store with one number.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
import yaml

from mfcp.commands.reading import default_params

NOTHING = """
from mfcp.environment import collect_seldom
collect_seldom()
import time
from mfcp.data.log.expectations import Expectations
from mfcp.tracking import MetricPoint, log_points
Expectations().publish()
log_points("nothing", "at all", [MetricPoint("rows", 0.0, 0, time.time())], tags={})
"""
TASKS, CLUSTERS, BLOCK = 500, 10, 1_000_000
GROUP = 2**20  # rows of a row group, as pyarrow writes them by itself


def generate(runs: int, folder: Path) -> None:
    """Write a log in which one run in twenty failed and 1 in 10,000 breaks the schema, the same for the same size."""
    rng = np.random.default_rng(0)
    tasks, clusters = [f"task-{k}" for k in range(TASKS)], [f"cluster-{k}" for k in range(CLUSTERS)]
    folder.mkdir(parents=True, exist_ok=True)
    models = {"task_id": tasks, "model": [f"resnet-{k}" for k in range(TASKS)], "samples": [1e6] * TASKS}
    pyarrow.parquet.write_table(pa.table(models), folder / "tasks.parquet")
    pyarrow.parquet.write_table(pa.table({"cluster_id": clusters}), folder / "clusters.parquet")

    def names(of: list[str], at: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), pa.array(of)).cast(pa.string())

    writer = None
    for first in range(0, runs, BLOCK):
        count = min(BLOCK, runs - first)
        seconds = rng.lognormal(5, 1, count)
        seconds[rng.random(count) < 1e-4] = -1.0
        started = 1_700_000_000_000_000 + np.sort(rng.integers(0, 10**13, count))
        block = pa.table(
            {
                "run_id": np.char.add("run-", np.arange(first, first + count).astype(str)),
                "task_id": names(tasks, rng.integers(0, TASKS, count)),
                "cluster_id": names(clusters, rng.integers(0, CLUSTERS, count)),
                "duration_s": seconds,
                "status": names(["succeeded", "failed"], (rng.random(count) < 0.05).astype(int)),
                "started_at": pa.array(started, pa.timestamp("us", tz="UTC")),
            }
        )
        writer = writer or pyarrow.parquet.ParquetWriter(folder / "runs.parquet", block.schema, compression="zstd")
        writer.write_table(block, row_group_size=GROUP)
    if writer is not None:
        writer.close()


def measured(command: list[str], cwd: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak MiB of a command and its children."""
    before, start, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0.0
    process = psutil.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(_mib, [process, *_children(process)])))
        time.sleep(0.1)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu, peak


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.Error:
        return []
    return found


def _mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / 2**20
    except psutil.Error:
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, action="append", help="rows of table runs; may be repeated")
    parser.add_argument("--log", type=Path, help="folder for the generated logs, reused if there; else a temporary one")
    parser.add_argument("--pandas", type=int, default=10_000_000, help="rows up to which pandas reads them as well")
    options = parser.parse_args()
    print(f"{'runs':>11} {'what':<22} {'s':>7} {'CPU s':>7} {'rows/s':>11} {'MiB':>7}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "nothing").mkdir()
        seconds, cpu, peak = measured([sys.executable, "-c", NOTHING], Path(temporary) / "nothing")
        print(f"{0:>11} {'the packages alone':<22} {seconds:7.1f} {cpu:7.1f} {'':>11} {peak:7.0f}", flush=True)
        for runs in options.runs or [1_000, 1_000_000, 10_000_000]:
            log = (options.log or Path(temporary)) / str(runs)
            if not (log / "runs.parquet").exists():
                generate(runs, log)
            work = Path(temporary) / f"work-{runs}"
            work.mkdir()
            params = yaml.safe_load(default_params().read_text())
            params["ingest"] = {"source": {"kind": "folder", "path": str(log.resolve())}}
            (work / "params.yaml").write_text(yaml.safe_dump(params))
            rows = [(name, [sys.executable, "-m", f"mfcp.stages.{name}"]) for name in ("ingest", "validate")]
            rows.append(("mfcp check", [str(Path(sys.executable).with_name("mfcp")), "check", str(log.resolve())]))
            if runs <= options.pandas:
                program = f"import pandas; pandas.read_parquet({str(log / 'runs.parquet')!r})"
                rows.insert(0, ("pandas.read_parquet", [sys.executable, "-c", program]))
            whole = np.zeros(2)
            for name, command in rows:
                seconds, cpu, peak = measured(command, work)
                print(
                    f"{runs:>11} {name:<22} {seconds:7.1f} {cpu:7.1f} {runs / seconds:11,.0f} {peak:7.0f}", flush=True
                )
                whole += (seconds, cpu) if name in ("ingest", "validate") else 0
            print(f"{runs:>11} {'ingest and validate':<22} {whole[0]:7.1f} {whole[1]:7.1f} {runs / whole[0]:11,.0f}")


if __name__ == "__main__":
    main()

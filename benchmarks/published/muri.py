"""Muri (Zhao et al., SIGCOMM 2022): orders and colocated jobs on 64 GPUs, every event charged.

The published numbers of Muri-S and Muri-L are older than commit e7fc578 of the authors' repository, which changed a
default: before, groups that take longer than their jobs in turn were not split.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.published.results import Number, Trial, tried
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import preset
from mfcp.simulator.simulation import import_policies, simulate

BOUNDS = {"srtf": 1e-4, "srsf": 1e-4, **dict.fromkeys(("tiresias", "themis", "antman", "muri_s", "muri_l"), 1e-2)}
NODES = Cluster.parse("8x8")
NOISES = {"themis": (1e-5, 0.0, 1e-3), **dict.fromkeys(("muri_s", "muri_l"), (0.0, 1e-5, 2e-5))}
"""What decides among equals: of our number, then of other ones. Themis' program leaves parts free, and what a solver
returns decides, its centre or by chance; Muri's matching is approximate, and many of its weights are equal."""
REPEATED = {"mean_jct_s": 2_034_897.985, "makespan_s": 24_994_975.966, "p99_jct_s": 17_837_740.277}
"""Themis on `trace1` as their program has it: run by us once, commit 4e69a78, with cvxpy and ECOS 2.0.14."""
METRICS = tuple(REPEATED)
PACKED = (1.33, 1.5, 1.37)  # of an iteration of two, three, four jobs, where one alone has `iteration_time_factor`
STAGES = ["resource_0_time_s", "resource_1_time_s", "resource_2_time_s"]
GUARANTEED_S = 1e12  # a deadline that nobody misses


def numbers(folder: Path, _: float) -> Iterator[Number]:
    """All published numbers of the traces that are there."""
    import_policies()
    expected = json.loads((folder / "expected.json").read_text())
    factor, limits = (
        expected["constants"]["iteration_time_factor"], tuple(expected["constants"]["tiresias"]["gpu_seconds_limits"])
    )  # fmt: skip
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in expected["results"]:
        policy, trace, metric = row["policy"], row["trace"], row["metric"]
        what = policy, trace, metric
        if policy not in BOUNDS or metric not in METRICS or not (folder / f"{trace}.parquet").exists():
            yield Number(*what, row["value"], None, None, "no such policy, metric or trace here")
            continue
        if (policy, trace) not in found:
            found[policy, trace] = _run(folder, trace, policy, factor, limits)
        number = Number(*what, row["value"], found[policy, trace][metric], BOUNDS[policy])
        others = partial(_otherwise, folder, trace, policy, metric, factor) if policy in NOISES else None
        yield tried(number, others)


@cache
def _drawn(folder: Path, trace: str, policy: str, factor: float, noise: float) -> dict[str, float]:
    muri = {"splits": False, "slower": tuple(each / factor for each in PACKED)}
    own = Policy.build(policy, noise=noise, **({"unit": "iterations"} if policy == "themis" else muri))
    return simulate(read_jobs(folder, trace, factor), NODES, own, semantics=preset("muri")).metrics()


def _otherwise(folder: Path, trace: str, policy: str, metric: str, factor: float) -> Trial:
    if (policy, trace) == ("themis", "trace1"):
        return Trial("their program on these files", (REPEATED[metric],))
    found = tuple(_drawn(folder, trace, policy, factor, noise)[metric] for noise in NOISES[policy])
    what = "other solutions of the same program" if policy == "themis" else "other matchings that are nearly as good"
    return Trial(what, found)


def _run(folder: Path, trace: str, policy: str, factor: float, limits: tuple[float, ...]) -> dict[str, float]:
    jobs = read_jobs(folder, trace, factor)
    if policy == "tiresias":  # counts accelerators, not nodes; a job keeps the place that it had
        ordering = Policy.build("las", limits=limits, within="entry")
        return simulate(jobs, Cluster.parse("64"), ordering, semantics=preset("muri", running_first=True)).metrics()
    if policy in NOISES:
        return _drawn(folder, trace, policy, factor, NOISES[policy][0])
    return simulate(jobs, NODES, Policy.build(policy), semantics=preset("muri")).metrics()


def read_jobs(folder: Path, trace: str, factor: float) -> Jobs:
    """A trace with the overhead of each model and number of GPUs, and what colocated jobs need."""
    frame, charges = pd.read_parquet(folder / f"{trace}.parquet"), pd.read_csv(folder / "overheads.csv")
    known = {(row.num_gpus, row.model): row.overhead_s for row in charges.itertuples()}
    overhead = [known.get(pair, 10.0) for pair in zip(frame["num_gpus"], frame["model"], strict=True)]
    return Jobs(
        frame["job"].to_numpy().astype(str), frame["submit_time_s"].to_numpy(float),
        frame["num_gpus"].to_numpy(np.int64), frame["iterations"].to_numpy(float),
        frame["iteration_time_ms"].to_numpy() * factor / 1000, overhead=np.array(overhead, float),
        stages=frame[STAGES].to_numpy(float),
        deadline=np.where(frame["priority"] == 0, GUARANTEED_S, np.inf),  # AntMan's jobs with a guarantee
    )  # fmt: skip

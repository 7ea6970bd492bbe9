"""Gavel (Narayanan et al., OSDI 2020): shares of three types of accelerators, one-GPU jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.published.results import Number
from mfcp.arrays import Floats
from mfcp.progress import progress
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

POLICIES = {
    "allox": "allox", "fifo": "in_turn", "fifo_perf": "in_turn_fastest", "max_min_fairness": "las_shares",
    "max_min_fairness_perf": "max_min", "finish_time_fairness": "finish_time_blind",
    "finish_time_fairness_perf": "finish_time",
}  # fmt: skip
CHANGED = "the file of throughputs changed after publication; it moves all policies that look at types"
ORDER = "which free type a job takes is not what the published runs did"
LAST = 5000  # jobs 4000 to 5000 are measured; they stop when these have ended, and jobs go on arriving until then


def numbers(folder: Path, rates: float) -> list[Number]:
    """The published numbers up to a rate of jobs an hour."""
    import_policies()
    expected = json.loads((folder / "expected.json").read_text())["results"]
    expected = [row for row in expected if row["rate_jobs_per_h"] <= rates]
    runs: dict[Any, Outcome] = {}
    result = []
    with progress("gavel_sim", len(expected)) as advance:
        for row in expected:
            result.append(_number(folder, row, runs))
            advance()
    return result


def _number(folder: Path, row: dict[str, Any], runs: dict[Any, Outcome]) -> Number:
    what = f"{row['policy']}, seed {row['seed']}, {row['rate_jobs_per_h']} jobs/h, {row['metric']}"
    policy = POLICIES.get(row["policy"])
    if policy is None:
        return Number(what, row["value"], None, None, "packs two jobs on one accelerator; not simulated yet")
    gap = row.get("mean_gap_s") or 3600 / row["rate_jobs_per_h"]
    outcome = _run(folder, policy, row["seed"], gap, runs)
    if row["metric"] == "mean_jct_s":
        return Number(what, row["value"], float(outcome.jct[4000:5000].mean()), 5e-4)
    if row["metric"] == "mean_jct_h":
        bound = 0.02 if policy == "in_turn_fastest" else 0.01
        cause = ORDER if policy == "in_turn" else CHANGED if policy in ("allox", "max_min", "finish_time") else ""
        return Number(what, row["value"], float(outcome.jct[4000:5001].mean()) / 3600, bound, cause)
    if row["metric"] == "mean_ftf_vs_isolated":
        alone = _run(folder, "isolated", row["seed"], gap, runs)
        ratio = float((outcome.jct[4000:5001] / alone.jct[4000:5001]).mean())
        cause = CHANGED if policy in ("allox", "max_min", "finish_time") else ""
        return Number(what, row["value"], ratio, 0.015, cause)
    return Number(what, row["value"], None, None, "how utilisation was counted is not known")


def _run(folder: Path, policy: str, seed: int, gap: float, runs: dict[Any, Outcome]) -> Outcome:
    if (policy, seed, gap) not in runs:
        jobs, speed = read_jobs(folder, seed, gap)
        cluster = Cluster.parse("v100:36,p100:36,k80:36")
        runs[policy, seed, gap] = simulate(jobs, cluster, Policy.build(policy), speed=speed, last=LAST, seed=seed)
    return runs[policy, seed, gap]


def read_jobs(folder: Path, seed: int, gap: float) -> tuple[Jobs, Floats]:
    """The jobs of a seed at a mean gap in seconds, and their steps per second on each type."""
    frame = pd.read_parquet(folder / "jobs.parquet").query("seed == @seed").sort_values("job")
    table = pd.read_parquet(folder / "throughputs.parquet").pivot(
        index="job_type_index", columns="device", values="steps_per_s"
    )
    submit = np.concatenate([[0.0], np.cumsum(frame["unit_gap"].to_numpy()[:-1] / (1 / gap))])
    one = np.ones(len(frame))
    jobs = Jobs(frame["job"].to_numpy().astype(str), submit, one.astype(np.int64), frame["steps"].to_numpy(float), one)
    return jobs, table[["v100", "p100", "k80"]].to_numpy()[frame["job_type_index"].to_numpy()]

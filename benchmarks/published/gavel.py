"""Gavel (Narayanan et al., OSDI 2020): shares of three types of accelerators, one-GPU jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.published.results import Number, Trial, tried
from mfcp.arrays import Floats
from mfcp.progress import progress
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

POLICIES = {
    "allox": "allox", "fifo": "in_turn", "fifo_perf": "in_turn_fastest", "max_min_fairness": "las_shares",
    "max_min_fairness_perf": "max_min", "finish_time_fairness": "finish_time_blind",
    "finish_time_fairness_perf": "finish_time",
}  # fmt: skip
FASTER = 1.065
"""The file of throughputs changed after publication. With P100 so much faster, fifo_perf at 0.4 jobs/h agrees."""
BY_TYPE, BLIND = ("allox", "max_min", "finish_time"), ("las_shares", "finish_time_blind")
ORDERS = (1, 2, 3)  # seeds of other orders in which blind policies fill the types
LAST = 5000  # jobs 4000 to 5000 are measured; they stop when these have ended, and jobs go on arriving until then


def numbers(folder: Path, rates: float) -> list[Number]:
    """The published numbers up to a rate of jobs an hour."""
    import_policies()
    expected = json.loads((folder / "expected.json").read_text())["results"]
    expected = [row for row in expected if row["rate_jobs_per_h"] <= rates]
    result = []
    with progress("gavel_sim", len(expected)) as advance:
        for row in expected:
            result.append(_number(folder, row))
            advance()
    return result


def _number(folder: Path, row: dict[str, Any]) -> Number:
    what = f"{row['policy']}, seed {row['seed']}, {row['rate_jobs_per_h']} jobs/h, {row['metric']}"
    policy = POLICIES.get(row["policy"])
    if policy is None:
        return Number(what, row["value"], None, None, "packs two jobs on one accelerator; not simulated yet")
    measure = MEASURES.get(row["metric"])
    if measure is None:
        return Number(what, row["value"], None, None, "how utilisation was counted is not known")
    gap = row.get("mean_gap_s") or 3600 / row["rate_jobs_per_h"]
    run = partial(_completion_times, folder, seed=row["seed"], gap=gap)
    bound = 0.02 if policy == "in_turn_fastest" and row["metric"] == "mean_jct_h" else BOUNDS[row["metric"]]
    number = Number(what, row["value"], measure(run, policy), bound)

    def trial() -> Trial:
        if policy in BY_TYPE:
            faster = measure(partial(run, faster=FASTER), policy)
            return Trial(f"P100 {FASTER - 1:.1%} faster than in today's file", (faster,))
        others = [measure(partial(run, order=order), policy) for order in ORDERS]
        return Trial("other orders of the types", (measure(run, policy), *others))

    return tried(number, trial if policy in BY_TYPE + BLIND else None)


MEASURES: dict[str, Callable[[Callable[[str], Floats], str], float]] = {
    "mean_jct_s": lambda run, policy: float(run(policy)[4000:5000].mean()),
    "mean_jct_h": lambda run, policy: float(run(policy)[4000:5001].mean()) / 3600,
    "mean_ftf_vs_isolated": lambda run, policy: float((run(policy) / run("isolated"))[4000:5001].mean()),
}
BOUNDS = {"mean_jct_s": 5e-4, "mean_jct_h": 0.01, "mean_ftf_vs_isolated": 0.015}


@cache
def _completion_times(
    folder: Path, policy: str, *, seed: int, gap: float, faster: float = 1.0, order: int | None = None
) -> Floats:
    jobs, speed = read_jobs(folder, seed, gap)
    cluster = Cluster.parse("v100:36,p100:36,k80:36")
    speed = speed * np.array([1.0, faster, 1.0])
    drawn = seed if order is None else order
    return simulate(jobs, cluster, Policy.build(policy), speed=speed, last=LAST, seed=drawn).jct


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

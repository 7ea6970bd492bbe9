"""Shockwave (Zheng et al., NSDI 2023): 120 jobs that change their batch sizes, on 32 accelerators in rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.published.results import Number, Trial, tried
from mfcp.arrays import Floats
from mfcp.progress import progress
from mfcp.simulator.batches import Batches
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import preset
from mfcp.simulator.simulation import import_policies, simulate

POLICIES: dict[str, dict[str, Any]] = {
    "allox": {"kind": "allox", "alpha": 0.2, "gangs": "anew"},
    "themis": {"kind": "finish_time"},
    "gavel_max_min": {"kind": "max_min"},
    "gandiva_fair": {"kind": "even_time"},
    "mst": {"kind": "most_throughput", "plain": True},
    "ossp": {"kind": "least_makespan"},
}
ACCELERATORS, CHARGE_S = 32, 20.0
LARGEST = {"ResNet-18": 256, "ResNet-50": 128, "LM": 80, "Recommendation": 8192}
"""Batch sizes to which accordion goes; it leaves Transformers alone."""
SHORTER = {512: 0.982, 1024: 0.97, 2048: 0.905, 4096: 0.943, 8192: 0.96}
"""Part of their steps, by first batch, that recommendation models do in `rounds.parquet`, the runs of `comparison`.

Read off by hand, from the ranges that whole rounds allow; they are about a hundredth wide, and wider at 1,024.
"""
BOUNDS = {
    "makespan_s": 0.02, "mean_jct_s": 0.02, "cluster_utilisation": 0.02, "unfair_fraction_above_1_10": 0.02,
    "unfair_fraction_above_1_05": 0.02,
}  # fmt: skip


def numbers(folder: Path, rates: float) -> Iterator[Number]:
    """The published numbers of every simulated run."""
    import_policies()
    expected = json.loads((folder / "expected.json").read_text())["results"]
    jobs, batches, alone = read_jobs(folder)
    found: dict[str, dict[str, float]] = {}
    with progress("shockwave", len(expected)) as advance:
        for row in expected:
            policy = row["policy"]
            if policy in POLICIES and policy not in found:
                found[policy] = _run(policy, jobs, batches, alone)
            for metric in BOUNDS:
                number = _number(row, metric, found.get(policy))
                again = row["run"] == "comparison" and policy in POLICIES
                yield tried(number, partial(_shorter, policy, metric, folder) if again else None)
            advance()


def _number(row: dict[str, Any], metric: str, ours: dict[str, float] | None) -> Number:
    what = row["policy"], row["run"], metric
    if ours is None or row.get(metric) is None:
        return Number(*what, row.get(metric) or np.nan, None, None, "no such policy or metric here")
    unit = "points" if metric.startswith("unfair") else "%"
    return Number(*what, row[metric], ours[metric], BOUNDS[metric], unit=unit)


def _run(policy: str, jobs: Jobs, batches: Batches, alone: Floats) -> dict[str, float]:
    cluster, semantics = Cluster.parse(str(ACCELERATORS)), preset("shockwave")
    return measured(
        simulate(jobs, cluster, Policy.parse(POLICIES[policy]), semantics=semantics, batches=batches), alone
    )


def _shorter(policy: str, metric: str, folder: Path) -> Trial:
    """With recommendation models that do as much as the published rounds of this set show."""
    jobs, batches, alone = read_jobs(folder)
    frame = pd.read_parquet(folder / "jobs.parquet").sort_values("job")
    part = [
        SHORTER[size] if model == "Recommendation" else 1.0
        for model, size in zip(frame["model"], frame["batch_size"], strict=True)
    ]
    shorter = replace(jobs, iterations=np.floor(jobs.iterations * np.array(part)))
    return Trial("recommendation models as short as in the rounds", (_run(policy, shorter, batches, alone)[metric],))


def measured(outcome: Outcome, alone: Floats) -> dict[str, float]:
    """What was published of a run; `alone` (n,) seconds by which fairness divides."""
    makespan = float(outcome.finished.max())
    unfair = outcome.jct / alone
    events = outcome.log[(outcome.log["event"] == "started") & (outcome.log["time_s"] > 0)]
    charged = CHARGE_S * float(events["gpus"].sum())  # is no use to anybody, and not counted as used
    return {
        "makespan_s": makespan,
        "mean_jct_s": float(outcome.jct.mean()),
        "cluster_utilisation": (float(outcome.held.sum()) - charged) / (ACCELERATORS * makespan),
        "unfair_fraction_above_1_10": float((unfair > 1.10).mean()),
        "unfair_fraction_above_1_05": float((unfair > 1.05).mean()),
    }


def read_jobs(folder: Path) -> tuple[Jobs, Batches, Floats]:
    """The jobs, the batch sizes that they want, and (n,) seconds of each alone times its share of the cluster."""
    frame = pd.read_parquet(folder / "jobs.parquet").sort_values("job")
    epochs = pd.read_parquet(folder / "epochs.parquet").sort_values(["job", "first_epoch"])
    rates = pd.read_csv(folder / "throughputs.csv").set_index(["model", "batch_size", "num_gpus"])["steps_per_s"]
    seconds = (epochs["last_epoch"] - epochs["first_epoch"] + 1) * epochs["epoch_duration_s"]
    alone = seconds.groupby(epochs["job"]).sum().to_numpy() * len(frame) / ACCELERATORS
    rows = []
    for number, job in enumerate(frame.itertuples()):
        own = epochs[epochs["job"] == job.job]
        phases = _wanted(job, own)
        for epoch, size in phases if len(phases) > 1 else []:
            rate = rates[(job.model, size, job.num_gpus)]
            rows.append((number, epoch, size, rate, own["samples_per_epoch"].iloc[0], job.adaptation == "gns"))
    job, epoch, size, rate, samples, ahead = (np.array(column) for column in zip(*rows, strict=True))
    batches = Batches(job, epoch, size, rate, samples, ahead.astype(np.int64))
    keys = zip(frame["model"], frame["batch_size"], frame["num_gpus"], strict=True)
    step = np.array([1 / rates[key] for key in keys])
    submit, steps = (frame[name].to_numpy(float) for name in ("submit_time_s", "steps"))
    jobs = Jobs(frame["job"].to_numpy().astype(str), submit, frame["num_gpus"].to_numpy(np.int64), steps, step)
    return jobs, batches, alone


def _wanted(job: Any, own: pd.DataFrame) -> list[tuple[int, int]]:
    """(first epoch, batch size) of each phase of a job, by the rules that are told beside the data."""
    first, largest = int(job.batch_size), LARGEST.get(job.model)
    if job.adaptation == "gns":  # a size is only ever doubled; the last epoch of the derived table goes back
        phases = [(int(a), int(b)) for a, b in zip(own["first_epoch"], own["batch_size"], strict=True)]
        return [phase for i, phase in enumerate(phases) if i == 0 or phase[1] > phases[i - 1][1]]
    if job.adaptation != "accordion" or largest is None or first == largest:
        return [(0, first)]
    if job.model == "LM":
        return [(0, first), (10, largest)]
    if job.model == "Recommendation":
        return [(0, first), (30 if first <= 1024 else 40 if first == 2048 else 10, largest)]
    if job.model == "ResNet-18":
        return [(0, first), (10, largest), (150, first), (160, largest), (250, first), (260, largest)]
    last = int(own["last_epoch"].iloc[-1]) + 1
    return [phase for epoch in range(0, last, 30) for phase in ((epoch, first), (epoch + 10, largest))]

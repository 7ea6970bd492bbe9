"""Machines with measured step times among the emulated clusters: a profile of the zoo's models joins the platform.

Step times are measured, in FP32 and at the batch that ran fastest; a task's larger batch takes as many such steps as
it needs (gradient accumulation). What no profile holds is emulated: the owner (`workshop`), its failures and outages,
and how many such machines share a task, so many that they are as fast as the platform's mean cluster.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mfcp.emulator import hardware
from mfcp.emulator.step import Steps
from mfcp.errors import DataError

OWNER = "workshop"
_STARTUP_S = 15.0
_LIMIT_S = 86400.0


@dataclass(frozen=True)
class Measured:
    """Tables tasks, clusters and runs of a profile (`mfcp profile`)."""

    tasks: pd.DataFrame
    clusters: pd.DataFrame
    runs: pd.DataFrame

    def join(self, tasks: pd.DataFrame, platform: pd.DataFrame, steps: Steps) -> tuple[pd.DataFrame, Steps]:
        """The platform with these machines behind its clusters, and the steps of `tasks` on all; nan where unmeasured.

        Raises:
            DataError: no run of the profile is of a model that the platform's tasks train.
        """
        graph = self.runs["task_id"].map(self.tasks.set_index("task_id")["graph_id"])
        runs = self.runs.assign(graph_id=graph)
        done = runs[(runs["status"] == "succeeded") & runs["graph_id"].isin(tasks["graph_id"])]
        if done.empty:
            raise DataError(
                "measured: no succeeded run of a model of the zoo in its tables; profile some with `mfcp profile`"
            )
        seconds, footprint, rows = [], [], []
        for machine in self.clusters.to_dict("records"):
            own = done[done["cluster_id"] == machine["cluster_id"]]
            if own.empty:
                continue
            by_batch = own.groupby(["graph_id", "task_id"]).agg(
                rate=("samples_per_s", "median"), bytes=("peak_memory_bytes", "median")
            )
            best = by_batch.loc[by_batch.groupby("graph_id")["rate"].idxmax()].droplevel("task_id")
            best = best.reindex(tasks["graph_id"])
            seconds.append(tasks["batch_size"].to_numpy(np.float64) / best["rate"].to_numpy(np.float64))
            footprint.append(best["bytes"].to_numpy(np.float64))
            noise = np.log(own["step_time_s"]).groupby([own["task_id"]]).std().median()
            rows.append(_row(machine, _size(tasks, platform, steps, seconds[-1]), noise))
        machines = hardware.with_owners(pd.DataFrame(rows))
        return pd.concat([platform, machines], ignore_index=True), Steps(
            np.column_stack([steps.seconds, *seconds]), np.column_stack([steps.footprint, *footprint])
        )


def _size(tasks: pd.DataFrame, platform: pd.DataFrame, steps: Steps, seconds: np.ndarray) -> int:
    """How many of a machine are as fast as the platform's mean cluster, on the tasks that it ran."""
    known = np.isfinite(seconds)
    others = np.log(steps.seconds[known] / platform["pool_size"].to_numpy(np.float64)).mean()
    return max(1, round(float(np.exp(np.log(seconds[known]).mean() - others))))


def _row(machine: dict[Hashable, Any], size: int, noise: float) -> dict[str, Any]:
    is_cpu = str(machine["cluster_id"]).startswith("cpu")
    return {
        "cluster_id": machine["cluster_id"],
        "owner": OWNER,
        "accelerator": machine["accelerator"],
        "accelerator_count": 1,
        "pool_size": size,
        "startup_s": _STARTUP_S,
        "noise_sigma": noise if np.isfinite(noise) else 0.0,
        "time_limit_s": _LIMIT_S,
        "software": machine["software"],
        "kind": "cpu" if is_cpu else "tensor",
        "peak_fp32": machine["peak_flops"],
        "memory_bytes": machine["memory_bytes"],
        "memory_bandwidth": machine["memory_bandwidth"],
        "interconnect_bandwidth": np.nan,
    }

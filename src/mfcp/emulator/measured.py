"""Machines with measured step times among the emulated clusters: a profile of the zoo's models joins the platform.

Step times are measured, in FP32 and at the batch that ran fastest; a task's larger batch takes as many such steps as
it needs (gradient accumulation). What no profile holds is emulated: the owner (`workshop`), its failures and outages,
and how many such machines share a task, so many that they are as fast as the platform's mean cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
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

    def of(self, graphs: Collection[str]) -> Machines:
        """The machines with succeeded FP32 runs of models with these graphs.

        Raises:
            DataError: there are none, a name stands twice, or what is needed of them is missing or no number.
        """
        for name, table in (("tasks", self.tasks), ("clusters", self.clusters)):
            key = table[f"{name[:-1]}_id"]
            if not key.is_unique:
                raise DataError(f"measured: table '{name}' has '{key[key.duplicated()].iloc[0]}' twice; keep one")
        task = self.tasks.set_index("task_id").reindex(self.runs["task_id"])
        # A run may tell another precision than its task: the one that it really used.
        precision = (self.runs if "precision" in self.runs else task)["precision"].fillna("fp32")
        counts = (self.runs["status"] == "succeeded").to_numpy() & (precision == "fp32").to_numpy()
        counts &= task["graph_id"].isin(graphs).to_numpy()
        runs = self.runs.assign(graph_id=task["graph_id"].to_numpy())[counts]
        clusters = self.clusters[self.clusters["cluster_id"].isin(runs["cluster_id"])]
        if clusters.empty:
            raise DataError(
                "measured: no succeeded FP32 run of a model of the platform in its tables; profile some with "
                "`mfcp profile`"
            )
        runs = _numbers("runs", runs, ("step_time_s", "samples_per_s", "peak_memory_bytes"))
        clusters = _numbers("clusters", clusters, ("memory_bytes",))
        return Machines(_numbers("clusters", clusters, ("peak_flops", "memory_bandwidth"), empty=True), runs)


@dataclass(frozen=True)
class Machines:
    """Machines that join the platform, and their runs that count, with the graph of each."""

    clusters: pd.DataFrame
    runs: pd.DataFrame

    @property
    def names(self) -> list[str]:
        """Their cluster_id."""
        return [str(name) for name in self.clusters["cluster_id"]]

    def join(self, tasks: pd.DataFrame, platform: pd.DataFrame, steps: Steps) -> tuple[pd.DataFrame, Steps]:
        """The platform with these machines behind its clusters, and the steps of `tasks` on all: nan if unmeasured."""
        seconds, footprint, rows = [], [], []
        for machine in self.clusters.to_dict("records"):
            own = self.runs[self.runs["cluster_id"] == machine["cluster_id"]]
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


def _numbers(name: str, table: pd.DataFrame, columns: Sequence[str], *, empty: bool = False) -> pd.DataFrame:
    """The table with these columns as positive numbers, or with `empty` cells among them."""
    found = {}
    for column in columns:
        if column not in table:
            raise DataError(
                f"measured: table '{name}' has no column '{column}'; give a folder that `mfcp profile` wrote"
            )
        found[column] = pd.to_numeric(table[column], errors="coerce")
        good = found[column].astype("float64").between(0, np.inf, inclusive="neither")
        wrong = table[~(good | table[column].isna() if empty else good)]
        if len(wrong):
            raise DataError(
                f"measured: table '{name}', '{wrong[table.columns[0]].iloc[0]}': {column} is "
                f"'{wrong[column].iloc[0]}', expected a positive number; mend it or drop the row"
            )
    return table.assign(**found)


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

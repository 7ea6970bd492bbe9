"""Tasks side by side: the pairs that the emulated platform logs.

Two tasks that share an accelerator take zeta(2) times as long as one after the other. The normalised sum of
throughputs, throughput_a / isolated_a + throughput_b / isolated_b, is 1 / zeta(2) while both run.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.emulator.failures import USABLE_MEMORY
from mfcp.emulator.step import Steps


def zeta_of_pairs(accelerators: list[str]) -> tuple[Floats, Floats]:
    """Median zeta(2) of each accelerator, and the log-normal spread of its pairs, by `colocation.csv`."""
    with resources.files("mfcp.emulator").joinpath("colocation.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file).set_index("accelerator")
    rows = table.reindex([name if name in table.index else "other" for name in accelerators])
    return rows["zeta"].to_numpy(np.float64), rows["spread"].to_numpy(np.float64)


def draw_pairs(
    tasks: pd.DataFrame, platform: pd.DataFrame, steps: Steps, count: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Table `colocation`: `count` pairs of tasks on one accelerator of every cluster, in steps per second.

    A pair whose footprints do not fit the memory together fails.
    """
    n, clusters = len(tasks), len(platform)
    cluster = np.repeat(np.arange(clusters), count)
    a, b = rng.integers(0, n, (2, len(cluster)))
    zeta, spread = zeta_of_pairs(list(platform["accelerator"]))
    speed = np.exp(spread[cluster] * rng.standard_normal(len(cluster))) / zeta[cluster]
    share = np.clip(0.5 + 0.08 * rng.standard_normal(len(cluster)), 0.2, 0.8)
    memory = USABLE_MEMORY * platform["memory_bytes"].to_numpy(np.float64)[cluster]
    together = steps.footprint[a, cluster] + steps.footprint[b, cluster]
    known = np.isfinite(steps.seconds[a, cluster]) & np.isfinite(steps.seconds[b, cluster])
    fits = known & (together <= memory)
    isolated = [np.where(known, 1 / steps.seconds[task, cluster], np.nan) for task in (a, b)]
    task_id, names = tasks["task_id"].to_numpy(str), platform["cluster_id"].to_numpy(str)
    table = pd.DataFrame(
        {
            "cluster_id": names[cluster],
            "task_a": task_id[a],
            "task_b": task_id[b],
            "throughput_a": np.where(fits, isolated[0] * speed * share, 0.0),
            "throughput_b": np.where(fits, isolated[1] * speed * (1 - share), 0.0),
            "isolated_a": isolated[0],
            "isolated_b": isolated[1],
            "status": np.where(fits, "succeeded", "oom"),
        }
    )
    pairs: pd.DataFrame = table[known].drop_duplicates(["cluster_id", "task_a", "task_b"]).reset_index(drop=True)
    return pairs

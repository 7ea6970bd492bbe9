"""Published figures of accelerators and the third-party clusters of the emulated platform.

`accelerators.csv` states what the makers publish (each row with its source) and two assumptions per
row, launch and latency; `clusters.csv` is invented: who owns what, how much of it, and how well it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import numpy as np
import pandas as pd

from mfcp.errors import SettingsError

PRECISIONS = ("fp32", "amp_fp16", "amp_bf16")


def accelerators() -> pd.DataFrame:
    """The accelerator table, indexed by name.

    Columns: kind (gpu, cpu); peak_fp32, peak_tf32, peak_fp16, peak_bf16 in FLOP/s, dense, with FP32
    accumulation, null where the hardware has no such unit; memory_bytes; memory_bandwidth in bytes/s;
    launch_s, what the host needs to start an operator, and latency_s, what the shortest operator takes
    (both typical values of eager PyTorch, not published); source.
    """
    return _table("accelerators").set_index("accelerator")


def clusters(names: Sequence[str] = ()) -> pd.DataFrame:
    """The clusters of the platform joined with their accelerators' figures, in the table's order.

    Args:
        names: which ones; empty for all.

    Raises:
        SettingsError: a name that is not in the table.
    """
    table = _table("clusters")
    unknown = sorted(set(names) - set(table["cluster_id"]))
    if unknown:
        raise SettingsError(f"unknown cluster '{unknown[0]}'; known: {', '.join(table['cluster_id'])}")
    if names:
        table = table[table["cluster_id"].isin(list(names))].reset_index(drop=True)
    return table.join(accelerators().drop(columns="source"), on="accelerator")


def peak_rates(platform: pd.DataFrame, precision: str, is_convolution: bool) -> np.ndarray:
    """Peak FLOP/s of one accelerator of each cluster for matrix work in a precision, (M,).

    Where the hardware lacks a unit the work runs at the FP32 rate. Convolutions in fp32 use TF32 where
    there is such a unit, matrix products do not: PyTorch's defaults.
    """
    full = "peak_tf32" if is_convolution else "peak_fp32"
    column = {"fp32": full, "amp_fp16": "peak_fp16", "amp_bf16": "peak_bf16"}[precision]
    return platform[column].fillna(platform["peak_fp32"]).to_numpy(np.float64)


def _table(name: str) -> pd.DataFrame:
    with resources.files("mfcp.emulator").joinpath(f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)

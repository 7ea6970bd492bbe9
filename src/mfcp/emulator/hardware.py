"""Published figures of accelerators and the third-party clusters of the emulated platform.

`accelerators.csv` and `interconnects.csv` state what the makers publish, `owners.csv` how often what owners of several
kinds run fails or is taken away, each row with its source; `clusters.csv` is invented: who owns what, and how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
import pandas as pd

from mfcp.errors import SettingsError

_PEAK = {"fp32": "peak_fp32", "amp_fp16": "peak_fp16", "amp_bf16": "peak_bf16"}  # column of `accelerators`
PRECISIONS = tuple(_PEAK)

ACCELERATOR_HAZARD = 2.0e-5
"""Interruptions per accelerator-hour: 419 unexpected ones of 16,384 H100 in 54 days (Llama 3, 2024, section 3.3.4)."""


class Unit(NamedTuple):
    """What work in a precision runs on: kind of hardware as efficiencies know it, and bytes of an activation."""

    kind: str
    element_bytes: float


def accelerators() -> pd.DataFrame:
    """The accelerator table, indexed by name.

    Columns: kind (tensor: with matrix units, vector: without, cpu); peak_fp32, peak_tf32, peak_fp16, peak_bf16 in
    FLOP/s, dense, with FP32 accumulation, null where the hardware has no such unit; memory_bytes; memory_bandwidth in
    bytes/s; source.
    """
    return _table("accelerators").set_index("accelerator")


def owners() -> pd.DataFrame:
    """The owners, indexed by name.

    Columns: job_failure, share of finished runs that fail for reasons that do not grow with their length;
    reclaimed_hourly, how often what a run holds is taken back; outage_hours and outage_mean_hours, hours between
    outages of the whole site and their mean length; source.
    """
    return _table("owners").set_index("owner")


def clusters(names: Sequence[str] = ()) -> pd.DataFrame:
    """The clusters of the platform joined with the figures of their accelerators, links and owners, in table order.

    Besides those: interconnect_bandwidth in bytes/s, null for one accelerator; hazard, interruptions per hour of all
    accelerators that a run uses; outage_rate per hour.

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
    table = table.join(accelerators().drop(columns="source"), on="accelerator")
    links = _table("interconnects").set_index("interconnect")["bandwidth"]
    table = table.assign(interconnect_bandwidth=table["interconnect"].map(links))
    return with_owners(table)


def with_owners(table: pd.DataFrame) -> pd.DataFrame:
    """Clusters joined with what their owners are like, and the rates that follow from it."""
    joined = table.join(owners().drop(columns="source"), on="owner")
    devices = joined["accelerator_count"] * joined["pool_size"]
    hazard = devices * ACCELERATOR_HAZARD + joined["reclaimed_hourly"]
    return joined.assign(hazard=hazard, outage_rate=1 / joined["outage_hours"])


def unit(platform: pd.DataFrame, precision: str) -> Unit:
    """What one cluster runs a precision on: the first row of `platform`."""
    row = platform.iloc[0]
    is_half = precision != "fp32" and pd.notna(row[_PEAK[precision]])
    kind = "vector" if row["kind"] == "tensor" and not is_half else str(row["kind"])
    return Unit(kind, 2.0 if is_half else 4.0)


def peak_rates(platform: pd.DataFrame, precision: str, is_convolution: bool) -> np.ndarray:
    """Peak FLOP/s of one accelerator of each cluster for matrix work in a precision, (M,).

    Where the hardware lacks a unit the work runs at the FP32 rate. Convolutions in fp32 use TF32 where
    there is such a unit, matrix products do not: PyTorch's defaults.
    """
    column = "peak_tf32" if is_convolution and precision == "fp32" else _PEAK[precision]
    return platform[column].fillna(platform["peak_fp32"]).to_numpy(np.float64)


def _table(name: str) -> pd.DataFrame:
    with resources.files("mfcp.emulator").joinpath(f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)

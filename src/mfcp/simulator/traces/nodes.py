"""A cluster from a table of its nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from mfcp.arrays import Ints
from mfcp.errors import DataError
from mfcp.simulator.cluster import PLENTY, Cluster
from mfcp.simulator.traces.files import numbers, read_table

NAMES = {
    "gpus": ("gpus", "gpu", "num_gpus", "gpu_capacity_num"), "type": ("type", "model", "gpu_model"),
    "cpu": ("cpu_milli",), "memory": ("memory_mib",),
}  # fmt: skip
"""What a column may be called; only the first has to be there."""


def read_nodes(path: Path) -> Cluster:
    """A row a node: accelerators, and if they are there their type, thousandths of cores, MiB of memory.

    Nodes without accelerators are left out. Alibaba's `openb_node_list_all_node.csv` is read as it is published.

    Raises:
        DataError: no column of accelerators, a cell that is no whole number of 0 or more, or no accelerator at all.
    """
    frame = read_table(path)
    found = {role: next((name for name in names if name in frame), None) for role, names in NAMES.items()}
    if found["gpus"] is None:
        raise DataError(f"{path}: no column {' or '.join(NAMES['gpus'])}; there are {', '.join(map(str, frame))}")
    size = _whole(path, frame, found["gpus"])
    kept = size > 0
    if not kept.any():
        raise DataError(f"{path}: no node has an accelerator")
    types, kind = ("gpu",), np.zeros(len(size), np.int64)
    if found["type"] is not None:
        names = frame[found["type"]].astype("str").fillna("").to_numpy(str)
        known, kind = np.unique(np.where(kept, names, names[kept][0]), return_inverse=True)
        types = tuple(known.tolist())
    room = [
        np.full(len(size), PLENTY) if (column := found[role]) is None else _whole(path, frame, column)
        for role in ("cpu", "memory")
    ]
    return Cluster(size[kept], kind[kept].astype(np.int64), types, room[0][kept], room[1][kept])


def _whole(path: Path, frame: pd.DataFrame, column: str) -> Ints:
    return numbers(path, frame, column, below=PLENTY, whole=True).astype(np.int64)

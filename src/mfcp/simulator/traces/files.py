"""Tables of a trace: what `mfcp.border.archives` reads, with headers that publishers left out, and their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.border.archives import read_packed
from mfcp.errors import DataError, quoted

PAI = {
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
}
"""Tables of Alibaba's trace of 2020 are published without their headers."""


def read_table(path: Path, needs: Iterable[str] = ()) -> pd.DataFrame:
    """The rows of a table: .parquet, .csv, .jsonl, .json, .psv, each also with .gz, or the only one of a .tar.gz.

    A file without an ending is taken for JSON, as Philly's `cluster_job_log` is.

    Raises:
        DataError: as `read_packed`, or columns that are needed are not there; all of them are named.
    """
    table = read_packed(path, headers=PAI)
    if missing := [name for name in needs if name not in table]:
        raise DataError(f"{path}: no column {', '.join(missing)}; there are {', '.join(map(str, table.columns))}")
    return table


def numbers(
    path: Path, frame: pd.DataFrame, column: str, *, least: float = 0.0, below: float = np.inf, whole: bool = False
) -> Floats:
    """A column as numbers of `least` or more, below a bound.

    Raises:
        DataError: a cell is none; the message names its row.
    """
    values: Floats = pd.to_numeric(frame[column], errors="coerce").to_numpy(float, na_value=np.nan)
    good = (values >= least) & (values < below) & ((values == np.round(values)) | (not whole))
    for row in np.flatnonzero(~good)[:1]:
        (value,) = frame[column].iloc[[row]].tolist()  # of Python's types, which people read
        raise DataError(
            f"{path}: row {row + 1}: {column} is {quoted(value)}, expected a {'whole ' * whole}number of "
            f"{least:g} or more" + (f" and below {below:.10g}" if below < np.inf else "")
        )
    return values

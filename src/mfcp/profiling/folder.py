"""A folder in the log schema that grows row by row, whole at any moment, with one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.data.log.coercion import coerce
from mfcp.data.log.formats import WRITERS
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import Tables, find_table, read_table, sole_writer
from mfcp.errors import DataError
from mfcp.files import output_folder, replacing

TABLES = ("nodes", "edges", "tasks", "clusters", "runs")
EXTRA: dict[str, dict[str, Any]] = {
    "tasks": {"optimizer": "str", "dataset": "str", "epochs": "Int64"},
    "clusters": {
        **dict.fromkeys(("threads", "cores"), "Int64"),
        **dict.fromkeys(("figures", "cpu_model", "kernel", "torch", "python", "blas", "driver"), "str"),
        "peak_flops_fp32": "float64",
    },
    "runs": {
        **dict.fromkeys(("wall_s", "cpu_s", "load_average", "step_time_p10_s", "step_time_p90_s"), "float64"),
        **dict.fromkeys(("warmup_steps", "steps"), "Int64"),
    },
}
"""Columns beyond the schema's, and their types."""


class LogFolder:
    """The tables of a folder; each row that is added is on the disk when `add` returns.

    A table is replaced as a whole, and referred tables are written before those that refer to them: whatever ends
    this process, the folder is a valid log without the last rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        found = {name: find_table(path, name) for name in TABLES}
        self._files = {name: file or path / f"{name}.parquet" for name, file in found.items()}
        self.tables: Tables = {
            name: _typed(name, read_table(file, SCHEMA[name]) if file else pd.DataFrame(columns=_required(name)))
            for name, file in found.items()
        }

    def names(self, table: str) -> set[str]:
        """Names of a table's rows, or of its graphs."""
        return set(self.tables[table].iloc[:, 0].astype("str")) if len(self.tables[table]) else set()

    def add(self, table: str, rows: Sequence[Mapping[str, Any]] | pd.DataFrame) -> None:
        """Append rows to a table and write it.

        Raises:
            DataError: the folder cannot be written; the old table is untouched.
        """
        old, new = self.tables[table], _typed(table, pd.DataFrame(rows))
        merged = pd.concat([old, new], ignore_index=True) if len(old) else new
        file = self._files[table]
        with replacing(file) as temporary:
            WRITERS[file.suffix](merged, temporary)
        self.tables[table] = merged

    def add_graph(self, graph_id: str, nodes: pd.DataFrame, edges: pd.DataFrame) -> None:
        """Add a graph, in the place of one whose task was never written."""
        for table, rows in (("nodes", nodes), ("edges", edges)):
            kept = self.tables[table]
            self.tables[table] = kept[kept["graph_id"] != graph_id]
            self.add(table, rows)


@contextmanager
def opened(path: Path) -> Iterator[LogFolder]:
    """The folder, made if missing, for this process alone.

    Raises:
        DataError: it is no folder, cannot be written, holds a damaged table, or another profile writes to it.
    """
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: a file; expected a folder, or a name for a new one")
    with sole_writer(output_folder(path)):
        yield LogFolder(path)


def _required(table: str) -> list[str]:
    return [column.name for column in SCHEMA[table].columns if not column.nullable]


def _typed(table: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame in the schema's types and ours; without columns that it lacks and the schema does not need."""
    own = set(frame.columns) | set(_required(table))
    typed = coerce(SCHEMA[table], frame.reindex(columns=[*frame, *(own - set(frame.columns))])).lenient
    typed = typed[[column for column in typed if column in own]]
    for column, dtype in EXTRA.get(table, {}).items():
        if column in typed:
            values = typed[column] if dtype == "str" else pd.to_numeric(typed[column])
            typed[column] = values.astype(dtype)
    return typed

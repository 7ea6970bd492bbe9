"""Operator graphs as compressed bytes, one piece a graph, and many of them back as two tables at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import EDGES, NODES, Table

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


def pack(frame: pd.DataFrame, table: Table, wanted: Collection[str]) -> dict[str, bytes]:
    """graph_id → its rows of table `nodes` or `edges`, for the graphs wanted; one that has none is left out."""
    own = frame[frame["graph_id"].isin(list(wanted))].sort_values("graph_id", kind="stable")
    if own.empty:
        return {}
    columns = pa.Table.from_pandas(own[[c.name for c in table.columns]], preserve_index=False).replace_schema_metadata()
    names, starts = np.unique(own["graph_id"].to_numpy(str), return_index=True)
    ends = [*starts[1:], len(own)]
    return {str(name): _bytes(columns.slice(a, b - a)) for name, a, b in zip(names, starts, ends, strict=True)}


def unpack(rows: Sequence[Any]) -> dict[str, pd.DataFrame]:
    """Tables `nodes` and `edges` of packed graphs; without any, two empty tables."""
    found = {}
    for table in (NODES, EDGES):
        pieces = [_table(row[table.name]) for row in rows if row[table.name] is not None]
        if pieces:
            frame = pa.concat_tables(pieces, promote_options="permissive").to_pandas()
        else:
            frame = pd.DataFrame({column.name: [] for column in table.columns})
        found[table.name] = coerce(table, frame).frame
    return found


def _bytes(columns: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=_COMPRESSED) as writer:
        writer.write_table(columns)
    return bytes(sink.getvalue().to_pybytes())


def _table(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()

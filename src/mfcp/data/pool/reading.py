"""A validated log from its folder, with the totals of its runs in place of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from pathlib import Path

from mfcp.border.tables import read_blocks
from mfcp.data.log.coercion import coerce
from mfcp.data.log.parts import PART_ROWS, Piece, pieces
from mfcp.data.log.schema import RUNS, SCHEMA
from mfcp.data.log.tables import Tables, find_tables, read_table, refuse_empty
from mfcp.data.pool.run_totals import RunTotals, TotalledLog
from mfcp.threads import cores, process_pool

_COLUMNS = (
    *("task_id", "cluster_id", "status", "duration_s", "samples_per_s", "step_time_s", "batch_size", "precision"),
    "started_at",
    "peak_memory_bytes",
)


def read_totalled(folder: Path) -> TotalledLog:
    """A validated log whose runs, one file or a folder of parts, are never in memory all at once.

    Raises:
        DataError: as `read_tables`.
    """
    found = find_tables(folder)
    path = found.pop(RUNS.name)
    tables = {name: read_table(file, SCHEMA[name]) for name, file in found.items()}
    for name, frame in tables.items():
        if frame.empty:
            refuse_empty(SCHEMA[name], found[name])
    own = pieces(path)
    keys = {
        "tasks": tables["tasks"][["task_id", "batch_size", "samples"]],
        "clusters": tables["clusters"][["cluster_id"]],
    }
    workers = min(len(own), cores())
    if workers > 1:
        with process_pool(workers, [__name__]) as pool:
            totals, rows = _summed(pool.map(_totals_of_piece, own, [keys] * len(own)))
    else:
        totals, rows = _summed(map(_totals_of_piece, own, [keys] * len(own)))
    if not rows:
        refuse_empty(RUNS, path)
    return TotalledLog(tables, totals)


def _totals_of_piece(piece: Piece, keys: Tables) -> tuple[RunTotals, int]:
    """Of one piece of the runs, block by block, and its rows."""
    blocks = read_blocks(piece.path, PART_ROWS, groups=piece.groups, columns=_COLUMNS)
    return _summed((RunTotals.of(keys, coerce(RUNS, block).lenient), len(block)) for block in blocks)


def _summed(parts: Iterable[tuple[RunTotals, int]]) -> tuple[RunTotals, int]:
    return reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)

"""A folder of log tables into another one, in the schema's types; a table of many runs becomes a folder of parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.border.tables import read_blocks
from mfcp.data.log.coercion import coerce
from mfcp.data.log.formats import write_part
from mfcp.data.log.parts import PART_ROWS, Piece, digest, each_once, kept_for_next, link, pieces
from mfcp.data.log.schema import RUNS, SCHEMA, Table
from mfcp.data.log.tables import check_columns, find_tables, name_rows, read_table, refuse_empty, write_tables

if TYPE_CHECKING:
    import pandas as pd


def copy_log(source: Path, folder: Path, scratch: Path, *, name_runs: bool = False) -> dict[str, int]:
    """Copy the tables of a log; the same as `read_tables` and `write_tables`, but for runs beyond `PART_ROWS`, which
    are never in memory all at once.

    Args:
        source: folder in the log schema.
        folder: an empty folder.
        scratch: a folder beside it for the parts that are done, from which a killed run goes on.
        name_runs: as `read_tables`; several files number their own rows.

    Returns:
        Rows of each table.

    Raises:
        DataError: as `read_tables` and `write_tables`.
    """
    rows = {}
    for name, path in find_tables(source).items():
        table = SCHEMA[name]
        rows[name] = _copy_runs(path, folder, scratch, name_runs) if table is RUNS else _copy_whole(path, table, folder)
        if not rows[name]:
            refuse_empty(table, path)
    return rows


def _copy_whole(path: Path, table: Table, folder: Path) -> int:
    frame = read_table(path, table)
    write_tables({table.name: frame}, folder)
    return len(frame)


def _copy_runs(path: Path, folder: Path, scratch: Path, name_runs: bool) -> int:
    found = pieces(path)
    unnamed = name_runs and not any(map(_has_names, {piece.path for piece in found}))
    names_of = [(f"{piece.path.name} " if path.is_dir() else "") if unnamed else None for piece in found]
    blocks: Iterator[pd.DataFrame] | None = None
    if len(found) == 1:
        blocks = read_blocks(found[0].path, PART_ROWS)
        first, second = next(blocks), next(blocks, None)
        if second is None:
            write_tables({RUNS.name: _in_types(first, str(path), names_of[0])}, folder)
            return len(first)
        blocks = itertools.chain((first, second), blocks)
    names = [digest(k, piece.stamp, piece.groups, unnamed) for k, piece in enumerate(found)]
    with kept_for_next(scratch):
        if blocks is not None:
            done = [_copy_blocks(blocks, str(path), names_of[0], 0, scratch / names[0])]
        else:
            done = each_once(copy_piece, list(zip(found, names_of, strict=True)), names, scratch)
        (folder / RUNS.name).mkdir()
        for k, (name, own) in enumerate(zip(names, done, strict=True)):
            for part in range(len(own["rows"])):
                link(scratch / f"{name}-{part}.parquet", folder / RUNS.name / f"{k:05d}-{part:05d}.parquet")
    return sum(sum(own["rows"]) for own in done)


def _has_names(path: Path) -> bool:
    """Whether the runs of a file have the column of their names."""
    return RUNS.key[0] in next(read_blocks(path, 1))


def copy_piece(piece: Piece, named: str | None, stem: Path) -> dict[str, Any]:
    """Copy one piece to the parts `stem-0.parquet` and so on; rows of each.

    Args:
        piece: of the table.
        named: how the names begin that its rows get; None: they have some.
        stem: of the parts.
    """
    blocks = read_blocks(piece.path, PART_ROWS, groups=piece.groups)
    return _copy_blocks(blocks, str(piece.path), named, piece.before, stem)


def _copy_blocks(
    blocks: Iterator[pd.DataFrame], where: str, named: str | None, before: int, stem: Path
) -> dict[str, Any]:
    rows: list[int] = []
    for k, frame in enumerate(blocks):
        own = _in_types(frame, where, named, before + sum(rows))
        write_part(own, stem.with_name(f"{stem.name}-{k}.parquet"), RUNS.key)
        rows.append(len(own))
    return {"rows": rows}


def _in_types(frame: pd.DataFrame, where: str, named: str | None, before: int = 0) -> pd.DataFrame:
    check_columns(RUNS, frame, where, unnamed=named is not None)
    if named is not None:
        name_rows(RUNS, frame, before, named)
    return coerce(RUNS, frame).lenient

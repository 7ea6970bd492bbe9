"""Folders of log tables in Parquet, CSV or JSON Lines: whole files in, whole files out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mfcp.border.regular import printable
from mfcp.border.tables import READERS, other_mark, plain_name, read_rows
from mfcp.data.log.formats import WRITERS
from mfcp.data.log.schema import RUNS, SCHEMA, Table
from mfcp.errors import DataError
from mfcp.files import locked, replacing

if TYPE_CHECKING:
    import pandas as pd

Tables = dict[str, "pd.DataFrame"]
"""The tables of a log by name, see `mfcp.data.log.schema.SCHEMA`."""

LOCK = ".writing.lock"
_TRACE = ". A trace of jobs is for `mfcp simulate --trace`"
Format = Literal["parquet", "csv", "jsonl"]


def read_tables(folder: Path, *, name_runs: bool = False) -> Tables:
    """The tables of a folder in the log schema; other files are ignored.

    Columns arrive in the schema's types. One in which a cell does not convert stays as it was read, so that
    `mfcp.data.log.validation.validate` can quarantine the row instead of losing the whole log.

    Args:
        folder: holds one file a table, `<table>.parquet`, `.csv` or `.jsonl`.
        name_runs: name the runs of a table without `run_id` by their rows. Not for a log that grows by deliveries, in
            which a run that comes twice is known by its name.

    Raises:
        DataError: no such folder, a required table is missing or there twice, a file is damaged, empty or in
            another encoding, a required column is missing.
    """
    tables: Tables = {}
    for name, path in find_tables(folder).items():
        table = SCHEMA[name]
        tables[name] = read_table(path, table, unnamed=name_runs and table is RUNS)
        if tables[name].empty:
            refuse_empty(table, path)
    return tables


def find_tables(folder: Path) -> dict[str, Path]:
    """The files of a log's tables by name, in the schema's order; what is a folder holds the parts of a table.

    Raises:
        DataError: no such folder, a required table is missing or there twice.
    """
    folder = Path(folder)
    if folder.is_file():
        raise DataError(f"{folder}: a file; expected the folder that holds {', '.join(_needed())}{_TRACE}")
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one that holds {', '.join(_needed())}")
    found = {}
    for table in SCHEMA.values():
        path = find_table(folder, table.name)
        if path is not None:
            found[table.name] = path
        elif table.required:
            seen = sorted(p.name for p in folder.iterdir())
            listed = ", ".join(seen[:20]) or "nothing"
            other = not found and not any(find_table(folder, name) for name in SCHEMA)
            raise DataError(
                f"{folder}: table '{table.name}' is missing; expected {' or '.join(table.name + s for s in READERS)}, "
                f"saw {listed}{_TRACE if other and seen else ''}"
            )
    return found


def refuse_empty(table: Table, path: Path) -> None:
    """Raise a DataError for a table without rows if it is a required one."""
    if table.required:
        raise DataError(f"{path}: table '{table.name}' has columns but no rows; expected {table.meaning}")


def read_table(path: Path, table: Table, *, unnamed: bool = False) -> pd.DataFrame:
    """One table's file or folder of parts, see `read_tables`; it may have no rows. Where rows may be `unnamed`, a key
    that is not there is filled in.
    """
    import pandas as pd

    from mfcp.data.log.coercion import coerce
    from mfcp.data.log.parts import part_files

    if path.is_dir():
        frame = pd.concat([read_rows(part) for part in part_files(path)], ignore_index=True)
    else:
        frame = read_rows(path)
    check_columns(table, frame, str(path), unnamed=unnamed)
    if unnamed and table.key[0] not in frame:
        name_rows(table, frame)
    return coerce(table, frame).lenient


def name_rows(table: Table, frame: pd.DataFrame, before: int = 0, text: str = "") -> None:
    """Give every row a key, in place: `text`, then its number in its file, of which `before` rows came before."""
    frame.insert(0, table.key[0], [f"{text}row {k}" for k in range(before + 1, before + len(frame) + 1)])


def read_new_tasks(path: Path) -> Tables:
    """Tasks to be matched, with their graphs where `path` is a folder: `tasks`, `nodes`, `edges`.

    Args:
        path: a file that holds table `tasks`, or a folder.

    Raises:
        DataError: as `read_table` and `check_tasks`, or no table `tasks` in the folder.
    """
    table = SCHEMA["tasks"]
    found = find_table(path, table.name) if path.is_dir() else path
    if found is None:
        raise DataError(f"{path}: no table 'tasks' in it; expected tasks.csv, tasks.jsonl or tasks.parquet")
    graphs = {name: find_table(path, name) for name in ("nodes", "edges")} if path.is_dir() else {}
    own = {
        name: check_rows(read_table(file, SCHEMA[name]), str(file), SCHEMA[name])
        for name, file in graphs.items()
        if file is not None
    }
    return {"tasks": check_tasks(read_table(found, table), str(found)), **own}


def check_tasks(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Rows of table `tasks` in the schema's types; a log's rows are quarantined instead, but these are asked about now.

    Raises:
        DataError: a missing column, a cell of another kind or out of bounds, a task without id or there twice.
    """
    tasks = check_rows(frame, where, SCHEMA["tasks"])
    ids = tasks["task_id"]
    if ids.duplicated().any():
        raise DataError(f"{where}: task_id '{ids[ids.duplicated()].iloc[0]}' occurs twice; keep one row")
    return tasks


def check_rows(frame: pd.DataFrame, where: str, table: Table) -> pd.DataFrame:
    """Rows of a table in the schema's types.

    Raises:
        DataError: a missing column, or a cell of another kind or out of bounds.
    """
    import numpy as np
    import pandas as pd

    from mfcp.data.log.coercion import broken, coerce

    check_columns(table, frame, where)
    coerced = coerce(table, frame)
    for column in table.columns:
        values, wrong = coerced.frame[column.name], coerced.wrong.get(column.name, np.zeros(len(frame), bool))
        for mask in broken(column, values).values():
            wrong = wrong | mask
        if wrong.any():
            row = int(wrong.argmax())
            seen = frame[column.name].iloc[row]
            shown = f"'{printable(seen[:80])}'" if isinstance(seen, str) and seen else seen
            if np.ndim(seen) == 0 and (pd.isna(seen) or seen == ""):
                shown = "nothing"
            at = f"{table.name} row {row + 1}, {column.name}"
            raise DataError(f"{where}: {at}: expected {column.expected}, got {shown}")
    return coerced.frame


def find_table(folder: Path, name: str) -> Path | None:
    """The file of a table in a folder, or the folder of its parts; None where there is none.

    Raises:
        DataError: two files hold it.
    """
    found = [folder / f"{name}{suffix}" for suffix in READERS if (folder / f"{name}{suffix}").exists()]
    if (folder / name).is_dir():
        found.append(folder / name)
    if len(found) > 1:
        names = " and ".join(p.name for p in found)
        raise DataError(f"{folder}: {names} both hold table '{name}'; keep one of them")
    return found[0] if found else None


def write_tables(tables: Tables, folder: Path, *, format: Format = "parquet") -> list[Path]:
    """Write one file a table, each whole or not at all; the same tables give the same bytes.

    A file of the same table in another format is removed afterwards: a folder holds each table once.

    Raises:
        DataError: a table that the schema does not know, or a folder that cannot be written.
    """
    unknown = sorted(set(tables) - set(SCHEMA))
    if unknown:
        raise DataError(f"unknown table '{unknown[0]}'; the log schema has {', '.join(SCHEMA)}")
    paths = []
    for name, frame in tables.items():
        path = Path(folder) / f"{name}.{format}"
        with replacing(path) as temporary:
            WRITERS[path.suffix](frame, temporary)
        for suffix in READERS:
            if suffix != path.suffix:
                path.with_suffix(suffix).unlink(missing_ok=True)
        if path.with_suffix("").is_dir():
            shutil.rmtree(path.with_suffix(""))
        paths.append(path)
    return paths


@contextmanager
def sole_writer(folder: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Keep other commands of mfcp from adding to a folder of tables, and clear what a killed one left half-written.

    Raises:
        DataError: another one does, still after `wait_s` seconds, or the folder cannot be written.
    """
    try:
        with locked(folder / LOCK, wait_s=wait_s):
            for left in (path for name in SCHEMA for path in folder.glob(f".{name}.*")):
                left.unlink(missing_ok=True)
            yield
    except BlockingIOError:
        raise DataError(
            f"{folder}: another `mfcp profile` or `mfcp capture` writes to this folder; wait for it or choose another "
            "--out"
        ) from None


def check_columns(table: Table, frame: pd.DataFrame, where: str, *, unnamed: bool = False) -> None:
    """Raise a DataError unless every column is there whose cells must be filled; `unnamed` rows need no key."""
    seen = [str(column) for column in frame.columns]
    needed = [c.name for c in table.columns if not c.nullable and not (unnamed and c.name == table.key[0])]
    missing = [name for name in needed if name not in seen]
    if missing:
        shown = ", ".join(map(printable, seen[:40])) or "none"
        raise DataError(
            f"{where}: table '{table.name}' lacks column {', '.join(missing)}; it has {shown}; "
            f"{_remedy(table, missing, seen)}"
        )


def _remedy(table: Table, missing: Sequence[str], seen: Sequence[str]) -> str:
    """What to do about columns that are missing, by those that are there."""
    if mark := other_mark(seen):
        return f"cells are parted by {mark!r}: save it with commas"
    plain = {plain_name(name): name for name in seen}
    if seen and not plain.keys() & {column.name for column in table.columns}:
        return "none of these is a column of it: write the names of the columns as the first line"
    renamed = [f"'{printable(plain[name])}' to {name}" for name in missing if name in plain]
    if len(renamed) == len(missing):
        return f"rename {', '.join(renamed)}"
    return f"add {'it' if len(missing) == 1 else 'them'}, no cell of it may be empty"


def _needed() -> list[str]:
    return [f"{t.name}.parquet" for t in SCHEMA.values() if t.required]

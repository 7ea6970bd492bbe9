"""Tables beyond one file: a folder of parts in its place, `runs/*.parquet` for `runs.parquet`, each of which fits into
memory; and work on parts beside each other, of which a killed command leaves the finished ones done.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mfcp.border.json_text import read_json
from mfcp.border.tables import READERS, row_groups
from mfcp.errors import DataError
from mfcp.files import locked, remove_folder, write_json
from mfcp.threads import cores, process_pool

PART_ROWS = 2**20
"""Rows of a part at most: some 200 MB in memory."""
_ROW_BYTES = 64  # of a run as text, at the least that anybody writes


@dataclass(frozen=True)
class Piece:
    """What of a table one worker reads at a time.

    Attributes:
        path: a file of the table.
        groups: row groups of a Parquet file; None: the whole file.
        stamp: changes with the file.
        before: rows of the file that come before it.
    """

    path: Path
    groups: tuple[int, ...] | None
    stamp: str
    before: int = 0


def part_files(folder: Path) -> list[Path]:
    """The parts of a table in the order of their names; what begins with "." or "_" is none.

    Raises:
        DataError: no part, or one of another kind than tables are.
    """
    found = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    strange = next((path for path in found if path.suffix not in READERS), None)
    if strange is not None:
        raise DataError(f"{strange}: not a part of a table; expected files that end in {', '.join(READERS)}")
    if not found:
        raise DataError(f"{folder}: no part of the table in it; expected files that end in {', '.join(READERS)}")
    return found


def pieces(path: Path) -> list[Piece]:
    """A table's file, or folder of parts, in pieces of some `PART_ROWS` rows; a file of text is one piece.

    Raises:
        DataError: no part, or a Parquet file that is damaged.
    """
    found = []
    for file in part_files(path) if path.is_dir() else [path]:
        facts = file.stat() if file.exists() else os.stat_result([0] * 10)
        stamp = f"{version('mfcp')} {file.name} {facts.st_size} {facts.st_mtime_ns}"
        if file.suffix != ".parquet":
            found.append(Piece(file, None, stamp))
            continue
        own: list[int] = []
        rows = before = 0
        for group, count in enumerate(row_groups(file)):
            if own and rows + count > PART_ROWS:
                found.append(Piece(file, tuple(own), stamp, before))
                before, own, rows = before + rows, [], 0
            own.append(group)
            rows += count
        found.append(Piece(file, tuple(own), stamp, before))
    return found


def beyond_one_part(path: Path) -> bool:
    """Whether a table's file, or folder of parts, may have more than `PART_ROWS` rows; text is judged by its size.

    Raises:
        DataError: as `pieces`.
    """
    rows = 0
    for file in part_files(path) if path.is_dir() else [path]:
        rows += sum(row_groups(file)) if file.suffix == ".parquet" else file.stat().st_size // _ROW_BYTES
    return rows > PART_ROWS


@contextmanager
def kept_for_next(folder: Path) -> Iterator[Path]:
    """A folder for what is half done, to oneself; it stays when the block is left by an error or a kill, and goes when
    the block ends, all at once: what another command finds there is whole.

    Raises:
        DataError: another command works there, or it cannot be written.
    """
    try:
        with locked(folder / ".lock"):
            yield folder
            remove_folder(folder)
    except BlockingIOError:
        raise DataError(f"{folder}: another command works on this log; wait for it") from None


def each_once(
    work: Callable[..., dict[str, Any]],
    items: Sequence[tuple[Any, ...]],
    names: Sequence[str],
    folder: Path,
    *,
    workers: int | None = None,
) -> list[dict[str, Any]]:
    """Work on every item, beside each other; results in the order of the items.

    Args:
        work: of a module, called with an item and the path stem `folder / name` that is its own to write to; gives
            plain JSON values.
        items: arguments of each call.
        names: of the items, each another one for another input: a result of that name in the folder is taken.
        folder: for results; what is there of other names is removed.
        workers: processes; None: one for each processor.

    Raises:
        DataError: of the first item that fails, after those before it are done.
    """
    stems = [f"{name}-" for name in names]
    for path in folder.iterdir():
        if path.name != ".lock" and not path.name.startswith(tuple(stems)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    results = {name: folder / f"{name}-done.json" for name in names}
    left = [k for k, name in enumerate(names) if not results[name].is_file()]
    workers = min(len(left), workers or cores())
    if workers > 1:
        with process_pool(workers, [work.__module__]) as pool:
            futures = {k: pool.submit(work, *items[k], folder / names[k]) for k in left}
            try:
                for k, future in futures.items():
                    write_json(results[names[k]], future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    else:
        for k in left:
            write_json(results[names[k]], work(*items[k], folder / names[k]))
    return [read_json(results[name]) for name in names]


def link(path: Path, other: Path) -> None:
    """The same file under another name as well: what was finished stays until all is."""
    try:
        os.link(path, other)
    except OSError:  # a file system without such links
        shutil.copyfile(path, other)


def digest(*facts: object) -> str:
    """A short name for an input."""
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:16]

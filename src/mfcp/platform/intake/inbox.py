"""Deliveries of an inbox into the log: all that wait are judged, written as one version, entered, archived.

A call that dies anywhere is repeated by the next one, with the same result. A delivery leaves the inbox last, and its
rows are judged in the same way beside a log that has them already.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mfcp.border.limits import limits
from mfcp.border.regular import kind_of, printable
from mfcp.border.tables import READERS
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import Tables, find_table, read_table, write_tables
from mfcp.errors import DataError, MfcpError
from mfcp.files import UnwritableError, files_digest, replacing_folder, write_json
from mfcp.platform.intake.merging import REASON, Merged, merge
from mfcp.platform.state.store import Note, Store

if TYPE_CHECKING:
    from mfcp.data.log.expectations import Expectations

_DEEP = 16  # folders of a delivery within each other
STILL_WRITTEN = (".part", ".tmp")
NO_FAULT = (UnwritableError, OSError, MemoryError)
"""What is not a delivery's fault: a full disk, a folder that goes away, a lack of memory."""
Status = Literal["taken", "partly", "refused", "known", "waiting"]


@dataclass(frozen=True)
class Delivery:
    """What became of one delivery.

    Attributes:
        name: of the file or folder.
        digest: SHA-256 of its content.
        status: all its rows are in the log; only some; none, since it cannot be read; the same content came before;
            it stays in the inbox, since it cannot be opened or judged now.
        rows: table → rows that the log has now.
        refused: table → rows in quarantine.
        why: why it was refused or waits.
    """

    name: str
    digest: str
    status: Status
    rows: dict[str, int]
    refused: dict[str, int]
    why: str = ""


def ingest(
    home: Path, log: Path, store: Store, version: Callable[[str], None], expectations: Expectations | None = None
) -> list[Delivery]:
    """Take what waits in `home`/inbox into the log; one call at a time.

    Args:
        home: the platform's folder, with `inbox`, `archive` and `quarantine` on one file system.
        log: folder of the log's tables, made with the first rows.
        store: where deliveries are entered.
        version: makes the log's present state a version, with a message; does nothing where it is one.
        expectations: see `mfcp.data.log.validation.validate`.

    Raises:
        DataError: the log is damaged, or something cannot be written; what waits goes on waiting.
    """
    _recover(log, home / "quarantine")
    tables = {name: read_table(path, SCHEMA[name]) for name in SCHEMA if (path := find_table(log, name))}
    known = store.deliveries()
    entered: dict[str, str] = dict(zip(known["digest"], known["status"], strict=True))
    done: list[tuple[Path, Delivery]] = []
    grown = False
    for item in waiting(home / "inbox"):
        name = printable(item.name)
        try:
            digest = digest_of(item)
            if digest in entered:
                done.append((item, Delivery(name, digest, "known", {}, {})))
                continue
            delivery, merged = _judge(item, digest, tables, home / "quarantine" / digest, expectations)
        except NO_FAULT as error:
            why = f"{name}: cannot be taken now ({getattr(error, 'strerror', None) or error or 'no memory'})"
            done.append((item, Delivery(name, "", "waiting", {}, {}, why)))
            continue
        if merged is not None:
            tables, grown = merged.log, grown or any(merged.new.values())
        entered[digest] = delivery.status
        done.append((item, delivery))
    if grown:
        with replacing_folder(log) as folder:
            write_tables(tables, folder)
    if taken := [one for _, one in done if one.rows]:  # whose rows a killed call may have written without a version
        version("\n".join(["Deliveries", "", *(f"{one.name} sha256 {one.digest}" for one in taken)]))
    for item, delivery in done:
        if delivery.status not in ("known", "waiting"):
            _enter(delivery, store)
        if delivery.status != "waiting":
            place = "quarantine" if entered[delivery.digest] == "refused" else "archive"
            _move(item, home / place / delivery.digest)
    return [delivery for _, delivery in done]


def waiting(inbox: Path) -> list[Path]:
    """Deliveries that are whole, those of tables that others refer to first."""
    order, places = {name: place for place, name in enumerate(SCHEMA)}, {}
    for item in inbox.iterdir():
        try:
            if not _still_written(item):
                places[item] = min((order.get(_table(name), len(order)) for name in _files(item)), default=0)
        except OSError:  # a folder that cannot be looked into waits, and `ingest` says why
            places[item] = 0
    return sorted(places, key=lambda item: (places[item], item.name))


def digest_of(item: Path) -> str:
    """SHA-256 of a delivery's content; what follows the table's name in that of a single file does not count.

    Of one that holds something else than files, which nobody reads, that of its name and of what is wrong.
    """
    if why := _irregular(item):
        return hashlib.sha256(f"irregular\0{printable(item.name)}\0{why}".encode()).hexdigest()
    return files_digest(_files(item))


def _irregular(item: Path) -> str:
    """Why nothing of a delivery is read, empty where it is files and folders and not too many: a named pipe or a link
    to an endless device would be read for ever, another link leads out of the inbox.
    """
    bounds, size = limits(), 0
    for count, path in enumerate(_walked(item)):
        found = path.lstat()
        kind = kind_of(found.st_mode)
        if kind not in ("", "a folder"):
            return f"{printable(path)}: {kind}; expected a file or a folder of files"
        if _depth(item, path) > _DEEP:
            return f"{printable(item)}: folders within each other, more than {_DEEP} deep; expected files"
        size += found.st_size
        if count > bounds.files or size > bounds.file_mib * 2**20:
            most = f"{bounds.files} files or {bounds.file_mib:g} MiB"
            return f"{printable(item)}: more than {most}, see `limits` of params.yaml"
    return ""


def _walked(item: Path) -> Iterator[Path]:
    """A delivery and all that lies in it; links are not followed."""
    yield item
    folders = [item] if item.is_dir() and not item.is_symlink() else []
    while folders:
        inside = sorted(folders.pop().iterdir())
        yield from inside
        folders += [path for path in inside if path.is_dir() and not path.is_symlink() and _depth(item, path) <= _DEEP]


def _depth(item: Path, path: Path) -> int:
    return len(path.parts) - len(item.parts)


def read_delivery(item: Path) -> Tables:
    """The tables of a delivery: a file `<table>[-anything].<ending>`, or a folder of files `<table>.<ending>`.

    A column `reason` is left out, so that mended rows of the quarantine can be delivered as they are.

    Raises:
        DataError: a table that the schema does not know, none at all, or a file that cannot be read.
    """
    tables: Tables = {}
    for name, path in _files(item).items():
        if path.suffix not in READERS and item.is_dir():
            continue
        table = SCHEMA.get(_table(name))
        if table is None or path.suffix not in READERS:
            raise DataError(
                f"{path}: not a table of the log schema; expected {', '.join(SCHEMA)}, with '-…' after it in a single "
                f"file's name, ending in {', '.join(READERS)}"
            )
        if table.name in tables:
            raise DataError(f"{item}: two files hold table '{table.name}'; keep one of them")
        tables[table.name] = read_table(path, table).drop(columns=REASON, errors="ignore")
    if not tables:
        raise DataError(f"{item}: no table in it; expected {', '.join(SCHEMA)} as {' or '.join(READERS)}")
    return {name: tables[name] for name in SCHEMA if name in tables}


def _files(item: Path) -> dict[str, Path]:
    """Name → file; a single file goes by its table."""
    if not item.is_dir() or item.is_symlink():
        return {item.stem.split("-")[0] + item.suffix: item}
    own = islice(_walked(item), limits().files)
    return {path.relative_to(item).as_posix(): path for path in own if path.is_symlink() or not path.is_dir()}


def _table(name: str) -> str:
    return name.rpartition(".")[0]


def _still_written(item: Path) -> bool:
    files = list(islice(_walked(item), limits().files))
    marked = any(path.name.startswith(".") or path.name.endswith(STILL_WRITTEN) for path in files)
    return marked or (item.is_dir() and not item.is_symlink() and len(files) == 1)


def _judge(
    item: Path, digest: str, tables: Tables, quarantine: Path, expectations: Expectations | None
) -> tuple[Delivery, Merged | None]:
    """What becomes of a delivery, its bad rows or its reason in quarantine; None where it cannot be read."""
    name = printable(item.name)
    try:
        if why := _irregular(item):
            raise DataError(why)
        merged = merge(tables, read_delivery(item), expectations)
        _check_width(item, merged.log)
        refused = {table: len(frame) for table, frame in merged.refused.items()}
        if refused:
            reasons = {n: frame[REASON].value_counts().head(3).to_dict() for n, frame in merged.refused.items()}
            with replacing_folder(quarantine) as folder:
                write_tables(merged.refused, folder)
                summary = {"name": name, "rows": merged.accepted, "quarantined": refused, "most": reasons}
                write_json(folder / "summary.json", summary)
    except NO_FAULT:
        raise
    except Exception as error:  # whatever its content does to a reader, the deliveries beside it are taken
        why = str(error) if isinstance(error, MfcpError) else f"{item}: cannot be read ({error!r})"
        why = printable(why.replace(f"{item.parent}{os.sep}", ""))  # it lies elsewhere when somebody reads this
        with replacing_folder(quarantine) as folder:
            write_json(folder / "reason.json", {"name": name, "reason": why})
        return Delivery(name, digest, "refused", {}, {}, why), None
    return Delivery(name, digest, "partly" if refused else "taken", merged.accepted, refused), merged


def _check_width(item: Path, log: Tables) -> None:
    """Columns that the schema does not know add up over deliveries, and a log beyond its own limit is read no more."""
    for table, frame in log.items():
        if len(frame.columns) > limits().columns:
            raise DataError(
                f"{item}: table '{table}' of the log would have {len(frame.columns)} columns; expected at most "
                f"{limits().columns}, see `limits` of params.yaml; leave out those that the schema does not know"
            )


def _enter(delivery: Delivery, store: Store) -> None:
    bad = sum(delivery.refused.values())
    notes = [Note("ingest.rows", float(sum(delivery.rows.values()))), Note("ingest.quarantined", float(bad))]
    if delivery.status != "taken":
        content = {"delivery": delivery.name, "digest": delivery.digest, "rows": delivery.refused, "why": delivery.why}
        notes.append(Note("quarantine", kind="event", content=content))
    store.deliver(delivery.digest, delivery.name, delivery.status, delivery.rows, delivery.refused, notes)


def _move(item: Path, folder: Path) -> None:
    """Out of the inbox; where the same content of this name lies already, that is enough."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(folder / item.name):
            os.rename(item, folder / item.name)
        elif item.is_dir() and not item.is_symlink():
            trash = Path(tempfile.mkdtemp(prefix=".", dir=folder))  # what cannot be deleted is at least out of the way
            os.rename(item, trash / "again")
            with suppress(OSError, RecursionError):
                shutil.rmtree(trash)
        else:
            item.unlink()
    except OSError as error:
        raise DataError(
            f"{item}: cannot move to {folder} ({error.strerror}); mend the rights, and keep inbox, archive and "
            "quarantine on one file system"
        ) from None


def _recover(log: Path, quarantine: Path) -> None:
    """Undo what a kill within `replacing_folder` leaves: the old log beside its place, and unfinished folders."""
    old = next(log.parent.glob(f".{log.name}.*.old"), None)
    if old is not None and not log.exists():
        os.rename(old, log)
    for unfinished in [*log.parent.glob(f".{log.name}.*"), *quarantine.glob(".*")]:
        shutil.rmtree(unfinished, ignore_errors=True)

"""Tables of any form that a trace is published in: compressed, in an archive, or as one JSON array."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any

import pandas as pd

from mfcp.border.bounds import Limits
from mfcp.border.json_text import parse_json
from mfcp.border.limits import limits
from mfcp.border.regular import opened, printable, refusing
from mfcp.border.tables import READERS, of_records, read_bars, read_rows
from mfcp.errors import DataError

BARS = (".psv", ".txt")
"""Endings of tables whose cells are parted by bars, as `sacct -P` prints them."""
ENDINGS = (*READERS, ".json", *BARS)
_PACKED = (".gz", ".tgz", ".tar")


def read_packed(path: Path, *, headers: dict[str, str] | None = None) -> pd.DataFrame:
    """The rows of a table by its ending: those of `ENDINGS`, these with .gz, or the only one of a .tar.gz.

    A file without an ending is taken for JSON.

    Args:
        path: the file.
        headers: name without ending → the first line of a CSV that is published without it.

    Raises:
        DataError: another ending, no such file, a damaged one, one beyond `mfcp.border.limits`.
    """
    bounds = limits()
    if path.suffix not in _PACKED and not _headless(path, headers):
        return _read(path, bounds)
    with tempfile.TemporaryDirectory(prefix="mfcp-trace-") as folder:
        try:
            return _read(_unpacked(path, Path(folder), bounds, headers or {}), bounds)
        except DataError as error:
            raise DataError(str(error).replace(folder, str(path.parent))) from None


def _read(path: Path, bounds: Limits) -> pd.DataFrame:
    if path.suffix in READERS:
        return read_rows(path)
    if path.suffix in BARS:
        return read_bars(path, bounds)
    if path.suffix not in (".json", ""):
        raise DataError(f"{printable(path)}: expected a file that ends in {', '.join(ENDINGS)}, or these and .gz")
    expected = f"one that ends in {', '.join(ENDINGS)}, or these and .gz"
    with opened(path, bounds.text_mib, expected=expected) as file:
        records = parse_json(file.read(), path, bounds)
    if not isinstance(records, list) or not records or not all(isinstance(each, dict) for each in records):
        raise DataError(f"{printable(path)}: expected an array of JSON objects, one a job")
    return of_records(records, dict.fromkeys(key for record in records for key in record), path, bounds)


def _headless(path: Path, headers: dict[str, str] | None) -> bool:
    return path.suffix == ".csv" and path.stem in (headers or {})


def _unpacked(path: Path, folder: Path, bounds: Limits, headers: dict[str, str]) -> Path:
    """A copy that is not packed, with its header."""
    with opened(path, bounds.file_mib) as file:
        if path.suffix not in _PACKED:
            return _copied(file, folder / path.name, path, bounds, headers)
        with refusing(path, "a whole compressed file"):
            for mode in ("r:gz", "r:"):  # not those that tarfile would try as well: few bytes of .xz fill the memory
                try:
                    with tarfile.open(fileobj=file, mode=mode) as archive:
                        return _of_archive(archive, folder, path, bounds, headers)
                except tarfile.ReadError:
                    file.seek(0)
            with gzip.open(file) as source:
                return _copied(source, folder / path.stem, path, bounds, headers)


def _of_archive(archive: tarfile.TarFile, folder: Path, path: Path, bounds: Limits, headers: dict[str, str]) -> Path:
    tables, unpacked = [], 0
    for member in archive:  # the next one is found behind the content of this one
        unpacked += member.size
        _check_size(path, unpacked, bounds)
        suffix = Path(member.name).suffix
        if member.isfile() and suffix in ENDINGS and suffix != ".txt":  # beside a table that is what explains it
            tables.append(member)
    if len(tables) != 1:
        names = ", ".join(printable(member.name) for member in tables[:12]) or "none"
        raise DataError(f"{printable(path)}: holds {len(tables)} tables ({names}); unpack it and name one of them")
    inner = archive.extractfile(tables[0])
    assert inner is not None  # it is a file
    return _copied(inner, folder / Path(tables[0].name).name, path, bounds, headers)


def _copied(source: IO[bytes] | Any, to: Path, path: Path, bounds: Limits, headers: dict[str, str]) -> Path:
    size = 0
    with to.open("wb") as file:
        while part := source.read(1 << 20):
            header = headers.get(to.stem, "").encode() if size == 0 and to.suffix == ".csv" else b""
            if header and not part.startswith(header[:9]):
                file.write(header + b"\n")
            size += len(part)
            _check_size(path, size, bounds)
            file.write(part)
    return to


def _check_size(path: Path, size: int, bounds: Limits) -> None:
    most = min(bounds.file_mib, bounds.packed_mib)
    if size > most * 2**20:
        raise DataError(
            f"{printable(path)}: unpacks to more than {most:g} MiB, see `limits` of params.yaml; unpack it and take a "
            "part of it"
        )

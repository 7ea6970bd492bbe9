"""A file of a trace as a table: what `mfcp.data.log.formats` reads, an array of JSON objects, and these compressed."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.data.log.formats import READERS
from mfcp.errors import DataError

MOST_BYTES = 4 << 30
"""Of a compressed file, once it is not compressed any more."""

PAI = {
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
}
"""Tables of Alibaba's trace of 2020 are published without their headers."""

ENDINGS = (*READERS, ".json")


def read_table(path: Path) -> pd.DataFrame:
    """Read a table by its ending: .parquet, .csv, .jsonl, .json, each also with .gz, or the only one of a .tar.gz.

    A file without an ending is taken for JSON, as Philly's `cluster_job_log` is.

    Raises:
        DataError: another ending, no such file, a damaged one, or one that unpacks to more than `MOST_BYTES`.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected one that ends in {', '.join(ENDINGS)}, or these and .gz")
    with tempfile.TemporaryDirectory(prefix="mfcp-trace-") as folder:
        try:
            plain = _unpacked(path, Path(folder))
            return _read(plain, Path(folder))
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise DataError(f"{path}: not a whole compressed file ({error}); copy or write it again") from None
        except DataError as error:
            raise DataError(str(error).replace(folder, str(path.parent))) from None


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
        raise DataError(
            f"{path}: row {row + 1}: {column} is {frame[column].iloc[row]!r}, expected a {'whole ' * whole}number of "
            f"{least:g} or more"
        )
    return values


def _unpacked(path: Path, folder: Path) -> Path:
    if path.suffix not in (".gz", ".tgz", ".tar"):
        return path
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            tables = [member for member in archive if member.isfile() and Path(member.name).suffix in ENDINGS]
            if len(tables) != 1:
                names = ", ".join(member.name for member in tables[:12]) or "none"
                raise DataError(f"{path}: holds {len(tables)} tables ({names}); unpack it and name one of them")
            inner = archive.extractfile(tables[0])
            assert inner is not None  # it is a file
            return _copied(inner, folder / Path(tables[0].name).name, path)
    with gzip.open(path) as source:
        return _copied(source, folder / path.stem, path)


def _copied(source: IO[bytes] | gzip.GzipFile, to: Path, path: Path) -> Path:
    size = 0
    with to.open("wb") as file:
        while part := source.read(1 << 20):
            size += len(part)
            if size > MOST_BYTES:
                raise DataError(f"{path}: unpacks to more than {MOST_BYTES >> 30} GiB; unpack it and take a part of it")
            file.write(part)
    return to


def _read(path: Path, folder: Path) -> pd.DataFrame:
    if path.suffix in READERS:
        with _headed(path, folder) as headed:
            return READERS[path.suffix](headed)
    if path.suffix in (".json", ""):
        return _read_array(path)
    raise DataError(f"{path}: expected a file that ends in {', '.join(ENDINGS)}, or these and .gz")


@contextmanager
def _headed(path: Path, folder: Path) -> Iterator[Path]:
    """The file itself, or a copy with the header that its publisher left out."""
    header = PAI.get(path.stem)
    if header is None or path.suffix != ".csv":
        yield path
        return
    with path.open("rb") as file:
        if file.read(9) == b"job_name,":
            yield path
            return
        file.seek(0)
        (folder / "headed").mkdir()
        with (folder / "headed" / path.name).open("wb") as copy:
            copy.write(header.encode() + b"\n")
            shutil.copyfileobj(file, copy)
    yield folder / "headed" / path.name


def _read_array(path: Path) -> pd.DataFrame:
    try:
        records = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); expected an array of objects, one a job") from None
    if not isinstance(records, list) or not records or not all(isinstance(each, dict) for each in records):
        raise DataError(f"{path}: expected an array of JSON objects, one a job")
    columns = dict.fromkeys(key for record in records for key in record)
    return pd.DataFrame({key: pd.Series([each.get(key) for each in records], dtype=object) for key in columns})

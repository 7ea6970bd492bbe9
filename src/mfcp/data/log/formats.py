"""Reading and writing one table file: Parquet, CSV or JSON Lines, by ending.

Readers return what the file says, without guessing types: CSV gives text, and a number that is not a number
(NaN) stays visible as such, since only an empty cell means unknown.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from mfcp.errors import DataError

NOT_A_NUMBER = "NaN"

# Whole numbers beside empty cells would become floats, and ids above 2^53 others.
_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def _read_parquet(path: Path) -> pd.DataFrame:
    _refuse_empty(path)
    try:
        # Opened here, not by pyarrow: its readers take a partitioned folder or a URI as well, and a stored
        # pandas index would turn columns into an index.
        with path.open("rb") as file:
            table = pyarrow.parquet.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a whole Parquet file ({reason}); copy or write it again") from None
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=_NULLABLE.get)
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            damaged = pc.fill_null(pc.is_nan(column), False).to_numpy()
            frame[name] = frame[name].astype(object).where(~damaged, NOT_A_NUMBER)
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    text = _utf8(path)
    try:
        header = next(csv.reader(io.StringIO(text.decode())))
    except csv.Error as error:
        raise DataError(f"{path}: the header is not valid CSV ({error}); mend it") from None
    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in header},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    read = pyarrow.csv.ReadOptions(use_threads=False)  # with threads an error does not tell its row
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text), read_options=read, parse_options=parse, convert_options=options
        )
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{path}: {reason}; every row needs the header's {len(header)} cells, parted by commas"
        ) from None
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _read_jsonl(path: Path) -> pd.DataFrame:
    records = []
    for number, line in enumerate(_utf8(path).decode().split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, parse_constant=lambda word: NOT_A_NUMBER if word == "NaN" else float(word))
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not valid JSON ({error}); write one object a line") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number}: expected a JSON object, got {line.strip()[:40]}")
        records.append(record)
    if not records:
        raise DataError(f"{path}: empty file; expected one JSON object a line")
    columns = list(dict.fromkeys(key for record in records for key in record))
    cells = {c: pd.Series([r.get(c) for r in records], dtype=object) for c in columns}
    return pd.DataFrame(cells, columns=columns)


def _utf8(path: Path) -> bytes:
    """The bytes of a text file without byte-order mark, known to be UTF-8."""
    _refuse_empty(path)
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:200]:
        raise DataError(f"{path}: encoded as UTF-16 (byte 0 is 0x{content[0]:02x}), expected UTF-8; save it as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8, probably Latin-1 or "
            "Windows-1252; save the file as UTF-8"
        ) from None
    if not content.strip():
        raise DataError(f"{path}: empty file; expected a table")
    return content


def _refuse_empty(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: expected a file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: empty file; expected a table")


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    # Without pandas' metadata the bytes depend on the values alone, not on the library that wrote them.
    table = pa.table({str(name): _arrow(values) for name, values in _storable(frame).items()})
    pyarrow.parquet.write_table(table, path, compression="zstd")


def _storable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of mixed types as text: validation will name the cells that are wrong."""
    mixed = [name for name in frame if frame[name].dtype == object and not _uniform(frame[name])]
    return frame.assign(**{str(name): frame[name].map(str, na_action="ignore").astype("str") for name in mixed})


def _arrow(values: pd.Series[Any]) -> pa.Array:
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        return pa.array(values.dt.tz_convert(None), type=pa.timestamp("us", tz="UTC"), from_pandas=True)
    return pa.array(values, from_pandas=True)


def _uniform(values: pd.Series[Any]) -> bool:
    return len({type(v) for v in values[values.notna()]}) <= 1


def _write_csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, lineterminator="\n", date_format="%Y-%m-%dT%H:%M:%S.%f%z")


def _write_jsonl(frame: pd.DataFrame, path: Path) -> None:
    columns = {str(name): _plain(values) for name, values in frame.items()}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(values: pd.Series[Any]) -> list[Any]:
    """A column as JSON values, empty cells as None, times as ISO 8601."""
    if isinstance(values.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_dtype(values.dtype):
        return [None if pd.isna(v) else v.isoformat() for v in values]
    return [None if missing else v for v, missing in zip(values.tolist(), values.isna(), strict=True)]


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
}
WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
}

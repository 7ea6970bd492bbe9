"""Table files that nobody vouches for: Parquet, CSV and JSON Lines, by ending.

Readers return what the file says, without guessing types: CSV gives text, and a number that is not a number
(NaN) stays visible as such, since only an empty cell means unknown.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from mfcp.border.bounds import Limits
from mfcp.border.json_text import NOT_A_NUMBER, parse_json
from mfcp.border.limits import limits
from mfcp.border.regular import opened, printable, refusing
from mfcp.errors import DataError

_BATCH = 1 << 16  # rows of a Parquet file at once
_MIB = 2**20
_LOOKED_AT = "see `limits` of params.yaml"

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


def read_rows(path: Path) -> pd.DataFrame:
    """The rows of a table file, columns as they are stored.

    Raises:
        DataError: an ending that is none of `READERS`, no such file, something else than a file, or one that is
            damaged, in another encoding, empty, or beyond `mfcp.border.limits`.
    """
    reader = READERS.get(path.suffix)
    if reader is None:
        raise DataError(f"{printable(path)}: expected a file that ends in {', '.join(READERS)}")
    return reader(path, limits())


def _read_parquet(path: Path, bounds: Limits) -> pd.DataFrame:
    # Opened here, not by pyarrow: its readers take a partitioned folder or a URI as well.
    with opened(path, bounds.file_mib) as file, refusing(path, "a whole Parquet file"):
        table = _whole_parquet(path, file, bounds)
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=_NULLABLE.get)
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            damaged = pc.fill_null(pc.is_nan(column), False).to_numpy()
            frame[name] = frame[name].astype(object).where(~damaged, NOT_A_NUMBER)
    return frame


def _whole_parquet(path: Path, file: Any, bounds: Limits) -> pa.Table:
    """Read batch by batch, so that a small file of a large table is found out before it fills the memory.

    Text is read as dictionaries, whose values are stored once in memory as they are in the file: a million times the
    same long text is a few bytes in a file.
    """
    schema = pyarrow.parquet.ParquetFile(file).schema_arrow
    texts = [column.name for column in schema if _is_text(column.type)]
    parquet = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
    _check_columns(path, schema.names, bounds)
    if parquet.metadata.num_rows > bounds.rows:
        raise DataError(
            f"{printable(path)}: {parquet.metadata.num_rows} rows; expected at most {bounds.rows}, {_LOOKED_AT}"
        )
    batches, size = [], 0
    for batch in parquet.iter_batches(_BATCH):
        batch.validate(full=True)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_timestamp(column.type) and not _in_calendar(column):
                raise ValueError(f"column {name} has a time outside of the years 1 to 9999")
        size += sum(_expanded_bytes(column) for column in batch.columns)
        if size > bounds.table_mib * _MIB:
            raise DataError(
                f"{printable(path)}: more than {bounds.table_mib:g} MiB in memory; {_LOOKED_AT}, or part the file"
            )
        batches.append(batch)
    table = pa.Table.from_batches(batches, parquet.schema_arrow)
    columns = [_plain(column) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _in_calendar(times: pa.Array) -> bool:
    ends = pc.min_max(times.cast(pa.int64())).as_py()
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[times.type.unit]
    low, high = (0 if value is None else value / per_second for value in ends.values())
    return bool(low > -62_135_500_000 and high < 253_402_200_000)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _expanded_bytes(column: pa.Array) -> int:
    """Of a column without dictionary."""
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary)
    return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0) + 4 * len(column)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a dictionary where there was none before: as `pandas` shows text."""
    if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
        return column.cast(pa.large_string() if pa.types.is_string(column.type.value_type) else column.type.value_type)
    return column


def _read_csv(path: Path, bounds: Limits) -> pd.DataFrame:
    text = _utf8(path, bounds.file_mib)
    with refusing(path, "a table", "mend its header"):
        # The first line that is not empty, as pyarrow has it.
        header = next((row for row in csv.reader(io.StringIO(text[: 4 * _MIB].decode("utf-8", "replace"))) if row), [])
    _check_columns(path, header, bounds)
    _check_cells(path, text.count(b"\n"), len(header), bounds)
    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in header},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    read = pyarrow.csv.ReadOptions(use_threads=False)  # with threads an error does not tell its row
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with refusing(path, "a table", f"every row needs the header's {len(header)} cells, parted by commas"):
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text), read_options=read, parse_options=parse, convert_options=options
        )
        guessed = [column.name for column in table.schema if column.type not in (pa.string(), pa.null())]
        if guessed or table.column_names != header:
            raise DataError(f"{printable(path)}: the header cannot be told; write it as the first line")
        frame: pd.DataFrame = table.to_pandas()
    return frame


def _read_jsonl(path: Path, bounds: Limits) -> pd.DataFrame:
    records: list[dict[str, Any]] = []
    columns: dict[str, None] = {}
    for number, line in enumerate(_utf8(path, bounds.text_mib).split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        record = parse_json(line, where, bounds, nan=NOT_A_NUMBER)
        if not isinstance(record, dict):
            seen = line.strip()[:40].decode("utf-8", "replace")
            raise DataError(f"{printable(where)}: expected a JSON object, got {printable(seen)}")
        records.append(record)
        columns.update(dict.fromkeys(record))
        if len(columns) > bounds.columns:
            _check_columns(path, list(columns), bounds)
    if not records:
        raise DataError(f"{printable(path)}: empty file; expected one JSON object a line")
    return of_records(records, columns, path, bounds)


def of_records(records: Sequence[dict[str, Any]], columns: Iterable[str], path: Path, bounds: Limits) -> pd.DataFrame:
    """JSON objects as rows, cells as they came.

    Raises:
        DataError: more columns, rows or cells than `bounds` has.
    """
    names = list(columns)
    _check_columns(path, names, bounds)
    _check_cells(path, len(records), len(names), bounds)
    cells = {name: pd.Series([record.get(name) for record in records], dtype=object) for name in names}
    return pd.DataFrame(cells, columns=names)


def _check_columns(path: Path, names: Sequence[str], bounds: Limits) -> None:
    if len(names) > bounds.columns:
        raise DataError(f"{printable(path)}: {len(names)} columns; expected at most {bounds.columns}, {_LOOKED_AT}")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        shown = ", ".join(map(printable, twice[:5]))
        raise DataError(f"{printable(path)}: column {shown} occurs twice; keep one")


def _check_cells(path: Path, rows: int, columns: int, bounds: Limits) -> None:
    if rows > bounds.rows or rows * columns > bounds.cells:
        raise DataError(
            f"{printable(path)}: {rows} rows of {columns} columns; expected at most {bounds.rows} rows and "
            f"{bounds.cells} cells, {_LOOKED_AT}"
        )


def _utf8(path: Path, most_mib: float) -> bytes:
    """The bytes of a text file without byte-order mark, known to be UTF-8."""
    with opened(path, most_mib) as file:
        content = file.read()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:200]:
        raise DataError(
            f"{printable(path)}: encoded as UTF-16 (byte 0 is 0x{content[0]:02x}), expected UTF-8; save it as UTF-8"
        )
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{printable(path)}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8, probably Latin-1 or "
            "Windows-1252; save the file as UTF-8"
        ) from None
    if not content.strip():
        raise DataError(f"{printable(path)}: empty file; expected a table")
    return content


READERS: dict[str, Callable[[Path, Limits], pd.DataFrame]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
}

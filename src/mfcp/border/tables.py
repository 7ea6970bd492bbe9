"""Table files that nobody vouches for: Parquet, CSV and JSON Lines, by ending.

Readers return what the file says, without guessing types: CSV gives text, and a number that is not a number
(NaN) stays visible as such, since only an empty cell means unknown.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

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
_BLOCK = 16 * _MIB  # of a CSV file at once: no row may be longer
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
    return next(read_blocks(path, limits().rows + 1))  # one more than there may be: too many are refused, not cut


def read_blocks(
    path: Path,
    rows: int,
    *,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    plain: Sequence[str] = (),
) -> Iterator[pd.DataFrame]:
    """The rows of a table file in blocks that fit into memory, each as `read_rows` has it; at least one block.

    Args:
        path: the file.
        rows: of a block at most.
        groups: row groups of a Parquet file, all if left out; the other files have none.
        columns: that are read of a Parquet file, all if left out; other files are read with all.
        plain: text columns of a Parquet file of ours that we know to be stored without dictionaries: they take a third
            of the time to read.

    Raises:
        DataError: as `read_rows`, at the first block that cannot be read.
    """
    reader = READERS.get(path.suffix)
    if reader is None:
        raise DataError(f"{printable(path)}: expected a file that ends in {', '.join(READERS)}")
    if reader is _read_parquet:
        return _read_parquet(path, limits(), rows, groups, columns, plain)
    return reader(path, limits(), rows)


def row_groups(path: Path) -> list[int]:
    """Rows of each row group of a Parquet file; errors as `read_rows`."""
    with opened(path, limits().file_mib) as file, refusing(path, "a whole Parquet file"):
        found = pyarrow.parquet.ParquetFile(file).metadata
        return [found.row_group(k).num_rows for k in range(found.num_row_groups)]


def _read_parquet(
    path: Path,
    bounds: Limits,
    rows: int,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    plain: Sequence[str] = (),
) -> Iterator[pd.DataFrame]:
    """Batch by batch, so that a small file of a large table is found out before it fills the memory.

    Text is read as dictionaries, whose values are stored once in memory as they are in the file: a million times the
    same long text is a few bytes in a file. Which columns have dictionaries the file says, but to ask for it ends the
    process where that part of a file is damaged.
    """
    # Opened here, not by pyarrow: its readers take a partitioned folder or a URI as well.
    with opened(path, bounds.file_mib) as file, refusing(path, "a whole Parquet file"):
        whole = pyarrow.parquet.ParquetFile(file)
        texts = [field.name for field in whole.schema_arrow if _is_text(field.type) and field.name not in plain]
        parquet = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
        _check_columns(path, whole.schema_arrow.names, bounds)
        if parquet.metadata.num_rows > bounds.rows:
            raise DataError(
                f"{printable(path)}: {parquet.metadata.num_rows} rows; expected at most {bounds.rows}, {_LOOKED_AT}"
            )
        wanted = [name for name in parquet.schema_arrow.names if columns is None or name in columns]
        schema = pa.schema([parquet.schema_arrow.field(name) for name in wanted])
        batches: list[pa.RecordBatch] = []
        size = count = told = 0
        for batch in parquet.iter_batches(min(_BATCH, rows), row_groups=groups, columns=wanted):
            batch.validate(full=True)
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if pa.types.is_timestamp(column.type) and not _in_calendar(column):
                    raise ValueError(f"column {name} has a time outside of the years 1 to 9999")
            if count + batch.num_rows > rows:
                yield _frame(batches, schema)
                batches, size, count, told = [], 0, 0, told + 1
            size, count = size + sum(_expanded_bytes(column) for column in batch.columns), count + batch.num_rows
            if size > bounds.table_mib * _MIB:
                raise DataError(
                    f"{printable(path)}: more than {bounds.table_mib:g} MiB in memory; {_LOOKED_AT}, or part the file"
                )
            batches.append(batch)
        if batches or not told:
            yield _frame(batches, schema)


def _frame(batches: list[pa.RecordBatch], schema: pa.Schema) -> pd.DataFrame:
    table = pa.Table.from_batches(batches, schema)
    table = pa.table([_plain(column) for column in table.columns], names=table.column_names)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=_NULLABLE.get)
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            damaged = pc.fill_null(pc.is_nan(column), False).to_numpy()
            frame[name] = frame[name].astype(object).where(~damaged, NOT_A_NUMBER)
    return frame


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


def read_bars(path: Path, bounds: Limits) -> pd.DataFrame:
    """The rows of a file whose cells are parted by bars and never quoted, as Slurm's tools print them.

    Raises:
        DataError: as `read_rows`.
    """
    return next(_read_csv(path, bounds, bounds.rows + 1, bars=True))


def _read_csv(path: Path, bounds: Limits, rows: int, *, bars: bool = False) -> Iterator[pd.DataFrame]:
    with opened(path, bounds.file_mib) as file:
        text = _Utf8(path, file)
        with refusing(path, "a table", "mend its header"):
            # The first line that is not empty, as pyarrow has it.
            dialect: dict[str, Any] = {"delimiter": "|", "quoting": csv.QUOTE_NONE} if bars else {}
            header = next((row for row in csv.reader(io.StringIO(text.head), **dialect) if row), [])
        _check_columns(path, header, bounds)
        options = pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in header},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK)  # with threads an error tells no row
        if bars:
            parse = pyarrow.csv.ParseOptions(delimiter="|", quote_char=False)
        else:
            parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        parted = f"every row needs the header's {len(header)} cells, parted by {'bars' if bars else 'commas'}"
        if not bars and (mark := other_mark(header)):
            parted = f"the header's cells are parted by {mark!r}: save it with commas, and numbers with points"
        with refusing(path, "a table", parted):
            stream = pyarrow.csv.open_csv(text, read_options=read, parse_options=parse, convert_options=options)
            guessed = [column.name for column in stream.schema if column.type not in (pa.string(), pa.null())]
            if guessed or stream.schema.names != header:
                raise DataError(f"{printable(path)}: the header cannot be told; write it as the first line")
            yield from _in_blocks(path, stream, rows, bounds)


def other_mark(header: Sequence[str]) -> str:
    """What parts the cells of a header that commas do not part; empty where nothing does."""
    return next((mark for mark in ";\t|" if mark in header[0]), "") if len(header) == 1 else ""


def plain_name(column: str) -> str:
    """A column's name as ours are written: `Task ID` and `duration (s)` are `task_id` and `duration_s`."""
    return re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_")


def _in_blocks(path: Path, stream: Any, rows: int, bounds: Limits) -> Iterator[pd.DataFrame]:
    """Batches of any size as frames of `rows` rows."""
    kept: list[pa.RecordBatch] = []
    count = seen = told = 0
    for batch in stream:
        seen += batch.num_rows
        _check_cells(path, seen, batch.num_columns, bounds)
        while count + batch.num_rows > rows:
            kept.append(batch.slice(0, rows - count))
            yield pa.Table.from_batches(kept, stream.schema).to_pandas()
            batch, kept, count, told = batch.slice(rows - count), [], 0, told + 1
        kept.append(batch)
        count += batch.num_rows
    if count or not told:
        yield pa.Table.from_batches(kept, stream.schema).to_pandas()


def _read_jsonl(path: Path, bounds: Limits, rows: int) -> Iterator[pd.DataFrame]:
    records: list[dict[str, Any]] = []
    columns: dict[str, None] = {}
    told = 0
    with opened(path, bounds.text_mib) as file:
        for number, line in enumerate(_Utf8(path, file).lines(), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            record = parse_json(line, where, bounds, nan=NOT_A_NUMBER)
            if not isinstance(record, dict):
                seen = line.strip()[:40].decode("utf-8", "replace")
                raise DataError(f"{printable(where)}: expected a JSON object, got {printable(seen)}")
            if len(records) == rows:
                yield of_records(records, columns, path, bounds)
                records, told = [], told + 1
            records.append(record)
            columns.update(dict.fromkeys(record))
            if len(columns) > bounds.columns:
                _check_columns(path, list(columns), bounds)
    if not records and not told:
        raise DataError(f"{printable(path)}: empty file; expected one JSON object a line")
    yield of_records(records, columns, path, bounds)


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
        shown = ", ".join(printable(name) or "''" for name in twice[:5])
        where = f"{printable(path)}: column {shown} occurs twice"
        raise DataError(f"{where}; keep one, and if the first line is a row, write the names above it")


def _check_cells(path: Path, rows: int, columns: int, bounds: Limits) -> None:
    if rows > bounds.rows or rows * columns > bounds.cells:
        raise DataError(
            f"{printable(path)}: {rows} rows of {columns} columns; expected at most {bounds.rows} rows and "
            f"{bounds.cells} cells, {_LOOKED_AT}"
        )


_OTHER_FORMATS = {
    b"PAR1": ("a Parquet file", "end its name with .parquet"),
    b"PK\3\4": ("a workbook or a zip archive", "save the sheet as CSV, or unpack it"),
    b"\xd0\xcf\x11\xe0": ("a workbook", "save the sheet as CSV"),
    b"\x1f\x8b": ("compressed by gzip", "unpack it"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "unpack it"),
}


class _Utf8(io.RawIOBase):
    """The bytes of a text file without byte-order mark, known to be UTF-8 as far as they were read."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        head = file.read(4 * _MIB)
        for start, (kind, remedy) in _OTHER_FORMATS.items():
            if head.startswith(start):
                raise DataError(f"{printable(path)}: {kind}, expected text; {remedy}")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:2]:
            raise DataError(
                f"{printable(path)}: encoded as UTF-16 (byte 0 is 0x{head[0]:02x}), expected UTF-8; save it as UTF-8"
            )
        self._path, self._file = path, file
        self._at = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.head = head[self._at :].decode("utf-8", "replace")
        if not self.head.strip():
            raise DataError(f"{printable(path)}: empty file; expected a table")
        file.seek(self._at)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what comes next."""
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        self._check(content)
        return len(content)

    def lines(self) -> Iterator[bytes]:
        """Line by line."""
        for line in self._file:
            self._check(line)
            yield line
        self._check(b"")

    def _check(self, content: bytes) -> None:
        pending = len(self._decoder.getstate()[0])
        try:
            self._decoder.decode(content, final=not content)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{printable(self._path)}: byte {self._at - pending + error.start} (0x{error.object[error.start]:02x}) "
                "is not UTF-8, probably Latin-1 or Windows-1252; save the file as UTF-8"
            ) from None
        self._at += len(content)


READERS: dict[str, Callable[[Path, Limits, int], Iterator[pd.DataFrame]]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
}

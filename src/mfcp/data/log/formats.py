"""Writing one table file: Parquet, CSV or JSON Lines, by ending. `mfcp.border.tables` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from math import isinf
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from mfcp.files import replacing


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    pyarrow.parquet.write_table(_table(frame), path, compression="zstd")


def write_part(frame: pd.DataFrame, path: Path, key: Sequence[str]) -> None:
    """A part of a large table as Parquet, whole or not at all; without dictionaries of the `key`, whose values are
    different ones: they take twice the time to read.
    """
    table = _table(frame)
    with replacing(path) as temporary:
        others = [name for name in table.column_names if name not in key]
        pyarrow.parquet.write_table(table, temporary, compression="zstd", use_dictionary=others)


def is_part(path: Path, frame: pd.DataFrame) -> bool:
    """Whether a file that was read as `frame` is what `write_part` would write of it, but for how it is packed."""
    return path.suffix == ".parquet" and pyarrow.parquet.read_schema(path) == _table(frame.head(1)).schema


def _table(frame: pd.DataFrame) -> pa.Table:
    # Without pandas' metadata the bytes depend on the values alone, not on the library that wrote them.
    return pa.table({str(name): _arrow(values) for name, values in _storable(frame).items()})


def _storable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of mixed types as text: validation will name the cells that are wrong."""
    mixed = [name for name in frame if frame[name].dtype == object and not _uniform(frame[name])]
    return frame.assign(**{str(name): frame[name].map(str, na_action="ignore").astype("str") for name in mixed})


def _arrow(values: pd.Series[Any]) -> pa.Array:
    try:
        if isinstance(values.dtype, pd.DatetimeTZDtype):
            return pa.array(values.dt.tz_convert(None), type=pa.timestamp("us", tz="UTC"), from_pandas=True)
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError):  # cells of kinds that only quarantine takes
        return pa.array(values.map(str, na_action="ignore"), from_pandas=True)


def _uniform(values: pd.Series[Any]) -> bool:
    return len({type(v) for v in values[values.notna()]}) <= 1


def _write_csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, lineterminator="\n", date_format="%Y-%m-%dT%H:%M:%S.%f%z")


def write_sheet(frames: pd.DataFrame | Iterable[pd.DataFrame], path: Path, **options: Any) -> None:
    """A CSV that people open in a spreadsheet, whole or not at all: a text that one would run as a formula, as an id
    `=cmd()` of a stranger's log, gets an apostrophe before it. Numbers stay.

    Args:
        frames: a table, or its rows in several; programs that need its texts as they are read JSON.
        path: the file.
        options: of `pandas.DataFrame.to_csv`.
    """
    with replacing(path) as temporary:
        for k, frame in enumerate([frames] if isinstance(frames, pd.DataFrame) else frames):
            texts = {str(name): frame[name].map(_harmless) for name in frame if not _is_of_numbers(frame[name])}
            own: dict[str, Any] = {"header": k == 0, "mode": "a" if k else "w"}
            frame.assign(**texts).to_csv(temporary, index=False, lineterminator="\n", **own, **options)


def _is_of_numbers(values: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_datetime64_any_dtype(values.dtype)


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _write_jsonl(frame: pd.DataFrame, path: Path) -> None:
    columns = {str(name): _plain(values) for name, values in frame.items()}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False, default=str) + "\n")


def _plain(values: pd.Series[Any]) -> list[Any]:
    """A column as JSON values, empty cells as None, times as ISO 8601."""
    if isinstance(values.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_dtype(values.dtype):
        return [None if pd.isna(v) else v.isoformat() for v in values]
    cells = zip(values.tolist(), values.isna(), strict=True)
    return [None if missing else str(v) if isinstance(v, float) and isinf(v) else v for v, missing in cells]


WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
}

"""Parquet files of odd columns, some of them named as the schema's."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from fuzz.mutation import VALUES

from mfcp.data.log.schema import SCHEMA

_TEXTS = [v if v is None else v.encode("utf-8", "replace").decode() for v in VALUES if v is None or isinstance(v, str)]
_METADATA = ("{", "[]", '{"index_columns": [7], "columns": []}')


def odd_table(rng: random.Random) -> tuple[str, bytes]:
    """The name of one, and its content."""
    table = SCHEMA[rng.choice(list(SCHEMA))]
    names = [column.name for column in table.columns if not column.nullable or rng.random() < 0.4]
    names += rng.sample(["x", "", "reason", "é", "a b", names[0]], rng.choice((0, 0, 1, 2)))
    rows = rng.choice((0, 1, 2, 3, 40))
    made = pa.table([_column(rng, rng.choice(_KINDS), rows) for _ in names], names=names)
    if rng.random() < 0.2:
        made = made.replace_schema_metadata({"pandas": rng.choice(_METADATA)})
    buffer = io.BytesIO()
    try:
        pyarrow.parquet.write_table(made, buffer, row_group_size=rng.choice((1, 7, 1000)))
    except pa.ArrowException:  # a kind that Parquet does not have
        return f"{table.name}.parquet", b"PAR1"
    return f"{table.name}.parquet", buffer.getvalue()


def _column(rng: random.Random, kind: Any, rows: int) -> pa.Array:
    if kind == "text":
        return pa.array([rng.choice(_TEXTS) for _ in range(rows)], pa.string())
    if kind == "not UTF-8":
        raw = pa.array([rng.choice((b"\xff", b"a", b"")) for _ in range(rows)], pa.binary())
        return pa.Array.from_buffers(pa.string(), rows, raw.buffers())
    if pa.types.is_floating(kind):
        numbers = [rng.choice((0.0, -1.0, 1.5, 60000.0, float("nan"), float("inf"))) for _ in range(rows)]
        return pa.array(np.array(numbers), from_pandas=False).cast(kind, safe=False)
    width = _WIDTHS.get(kind, 62)
    low = 0 if pa.types.is_unsigned_integer(kind) else -(2**width)
    numbers = [rng.choice((0, 1, 7, 2**width - 1, low, None)) for _ in range(rows)]
    if kind in _CELLS:
        return pa.array([None if n is None else _CELLS[kind](n) for n in numbers], kind)
    if pa.types.is_temporal(kind):
        return pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    return pa.array(numbers, kind)


_WIDTHS = {pa.int8(): 7, pa.uint8(): 8, pa.int16(): 15, pa.date32(): 31}
_CELLS: dict[Any, Any] = {
    pa.list_(pa.int64()): lambda n: [n],
    pa.struct([("a", pa.int64())]): lambda n: {"a": n},
    pa.map_(pa.string(), pa.int64()): lambda n: [("k", n)],
    pa.bool_(): bool,
    pa.binary(): lambda n: b"\xff",
    pa.null(): lambda n: None,
    pa.time64("us"): lambda n: None,
    pa.decimal128(38, 2): lambda n: n % 100,
    pa.dictionary(pa.int32(), pa.string()): lambda n: "a" if n else "b",
}
_KINDS: list[Any] = [
    *["text"] * 4, "not UTF-8", *_CELLS, pa.int8(), pa.uint8(), pa.int16(), pa.int64(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns"),
    pa.timestamp("us", "UTC"), pa.timestamp("ms", "No/Where"), pa.timestamp("us", "Asia/Tokyo"), pa.duration("s"),
]  # fmt: skip

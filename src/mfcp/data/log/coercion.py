"""Columns into the schema's types, cell by cell: what does not convert is named, not fatal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd

from mfcp.arrays import Bools
from mfcp.data.log.schema import Column, Kind, Table

Stated = Literal["missing", "range", "values"]
"""Constraints that a column states of its values."""

DTYPES: dict[Kind, Any] = {
    "text": pd.api.types.pandas_dtype("str"), "integer": pd.api.types.pandas_dtype("Int64"),
    "real": np.dtype("float64"), "time": pd.api.types.pandas_dtype("datetime64[us, UTC]"),
}  # fmt: skip


@dataclass(frozen=True)
class Coerced:
    """A table in the schema's types.

    Attributes:
        frame: every schema column in its type, those that were left out all empty, cells that do not
            convert empty; then the columns that the schema does not know.
        wrong: column → mask of the rows whose cell does not convert; only columns that have one.
        raw: the table as it came.
    """

    frame: pd.DataFrame
    wrong: dict[str, np.ndarray[Any, np.dtype[np.bool_]]]
    raw: pd.DataFrame

    @property
    def lenient(self) -> pd.DataFrame:
        """`frame`, but columns with a cell that does not convert as they came."""
        return self.frame.assign(**{name: self.raw[name] for name in self.wrong})


def coerce(table: Table, frame: pd.DataFrame) -> Coerced:
    """The table in the schema's types; columns that were left out are empty (`tables.check_columns`)."""
    raw = frame.reset_index(drop=True)
    columns: dict[str, Any] = {}
    wrong = {}
    for column in table.columns:
        if column.name not in raw:
            columns[column.name] = pd.Series(None, index=raw.index, dtype=DTYPES[column.kind])
            continue
        values, bad = converted(column, raw[column.name])
        columns[column.name] = values
        if bad.any():
            wrong[column.name] = bad
    known = {c.name for c in table.columns}
    others = {str(name): raw[name] for name in raw.columns if name not in known}
    return Coerced(pd.DataFrame({**columns, **others}, index=raw.index), wrong, raw)


def converted(column: Column, values: pd.Series[Any]) -> tuple[pd.Series[Any], Bools]:
    """A column in its type, empty where a cell does not convert; and which cells do not, (rows,)."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    dtype, none_wrong = DTYPES[column.kind], np.zeros(len(values), bool)
    if values.dtype == dtype and column.kind != "text":
        return values, none_wrong
    empty = values.isna().to_numpy(bool)
    if empty.all():  # so are most columns of a few rows, and to convert one takes a millisecond
        return pd.Series(None, values.index, dtype), none_wrong
    if isinstance(values.dtype, pd.StringDtype):
        blank = (values == "").to_numpy(bool, na_value=False)
        if values.dtype == dtype and column.kind == "text" and not blank.any():
            return values, none_wrong
        empty = empty | blank
    elif values.dtype == object:
        empty = empty | np.array([isinstance(v, str) and v == "" for v in values], bool)
        values = pd.Series([v if isinstance(v, _SCALARS) else None for v in values], values.index, object)
    made = {"text": _text, "integer": _integer, "real": _real, "time": _time}[column.kind](values.mask(empty))
    made = made.astype(dtype)
    return made, made.isna().to_numpy(bool) & ~empty


_SCALARS = (str, int, float, np.number, Decimal, date)  # anything else, lists for one, is a wrong type


def _text(values: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(values.dtype, pd.StringDtype):
        return values
    if pd.api.types.is_integer_dtype(values.dtype):
        return values.astype("string")
    # Numbers that name a thing (task 17) are fine; anything else is a wrong type.
    return values.astype(object).map(_name, na_action="ignore").astype("str")


def _name(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else None


def _number(values: pd.Series[Any]) -> pd.Series[Any]:
    if values.dtype == object:
        values = values.map(_numeric, na_action="ignore")
    elif pd.api.types.is_bool_dtype(values.dtype) or not (
        pd.api.types.is_numeric_dtype(values.dtype) or isinstance(values.dtype, pd.StringDtype)
    ):
        return pd.Series(np.nan, index=values.index)  # booleans, times and spans of time have no unit to trust
    return pd.to_numeric(values, errors="coerce")


def _numeric(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, str | int | float | np.number) and not isinstance(value, bool) else None


def _real(values: pd.Series[Any]) -> pd.Series[Any]:
    return _number(values).astype("float64")


def _integer(values: pd.Series[Any]) -> pd.Series[Any]:
    numbers = _number(values)
    if pd.api.types.is_signed_integer_dtype(numbers.dtype):
        return numbers
    size = numbers.astype("float64")
    whole = size.notna() & (size % 1 == 0) & (size.abs() < 2**63)
    # Once more without the others: beside an empty cell a large whole number would pass through a float.
    return pd.to_numeric(values[whole]).astype("Int64").reindex(values.index)


def _time(values: pd.Series[Any]) -> pd.Series[Any]:
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return pd.to_datetime(values, utc=True)
    # A bare number could be seconds or milliseconds since some epoch: only text and dates say which time it is.
    texts = [v if isinstance(v, str | date) else None for v in values.astype(object)]
    parsed = pd.to_datetime(pd.Series(texts, values.index, object), errors="coerce", utc=True, format="ISO8601")
    return parsed.dt.as_unit("us")


def broken(column: Column, values: pd.Series[Any]) -> dict[Stated, Bools]:
    """Which cells break what the schema says of a column's values, (rows,) for each constraint that it states.

    The one place that applies bounds; Great Expectations and the service's requests declare the same from `Column`.

    Args:
        column: its schema.
        values: in the column's type, see `coerce`.
    """
    found: dict[Stated, Bools] = {}
    if not column.nullable:
        found["missing"] = values.isna().to_numpy(bool)
    if column.low is not None and column.high is not None:
        numbers = values.astype("float64").to_numpy(na_value=np.nan)
        low = numbers <= column.low if column.above else numbers < column.low
        found["range"] = low | (numbers > column.high)
    if column.values:
        found["values"] = (values.notna() & ~values.isin(column.values)).to_numpy(bool)
    return found

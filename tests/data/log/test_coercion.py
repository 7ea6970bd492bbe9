from datetime import date
from decimal import Decimal

import pandas as pd
import pytest

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import Column, Table

TABLE = Table(
    "t",
    "test",
    (
        Column("name", "text", "", nullable=False),
        Column("count", "integer", "", low=0, high=1e18),
        Column("amount", "real", "", low=0, high=1e9),
        Column("when", "time", ""),
        Column("more", "real", "", low=0, high=1),
    ),
    key=("name",),
)


def one(column, values):
    frame = pd.DataFrame({"name": "x", "count": 1, "amount": 1.0, "when": None}, index=range(len(values)))
    frame[column] = values
    return coerce(TABLE, frame)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("name", 17, "17"),
        ("name", "", None),
        ("count", "12", 12),
        ("count", 12.0, 12),
        ("count", str(2**62 + 1), 2**62 + 1),
        ("amount", " 1e3", 1000.0),
        ("amount", "0.1", 0.1),
        ("amount", Decimal("0.5"), 0.5),
        ("amount", "", None),
        ("when", "2026-01-02T03:04:05", pd.Timestamp(2026, 1, 2, 3, 4, 5, tz="UTC")),
        ("when", "2026-01-02T03:04:05+02:00", pd.Timestamp(2026, 1, 2, 1, 4, 5, tz="UTC")),
        ("when", date(2026, 1, 2), pd.Timestamp(2026, 1, 2, tz="UTC")),
    ],
)
def test_values_that_convert(column, value, expected):
    result = one(column, pd.Series([value, None], dtype=object))
    assert not result.wrong
    got = result.frame[column].iloc[0]
    assert pd.isna(got) if expected is None else got == expected


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", 1.5),
        ("name", True),
        ("name", ["a"]),
        ("count", 1.5),
        ("count", "1.5"),
        ("count", "many"),
        ("count", True),
        ("count", 1e30),
        ("amount", "fast"),
        ("amount", "nan"),
        ("amount", "1,5"),
        ("amount", False),
        ("amount", {"s": 1}),
        ("when", 1.7e9),
        ("when", 1700000000),
        ("when", "yesterday"),
    ],
)
def test_values_that_do_not_convert_are_named(column, value):
    result = one(column, pd.Series([value, None], dtype=object))
    assert result.wrong[column].tolist() == [True, False]
    assert result.frame[column].isna().all()
    assert result.lenient[column].iloc[0] == value


def test_spans_of_time_and_booleans_are_no_numbers():
    assert one("amount", pd.to_timedelta([1, 2], unit="s")).wrong["amount"].all()
    assert one("count", [True, False]).wrong["count"].all()
    assert one("when", pd.to_timedelta([1, 2], unit="s")).wrong["when"].all()
    assert one("when", [1.0, 2.0]).wrong["when"].all()


@pytest.mark.parametrize("kind", ["uint64", "UInt64", "int8", "float16"])
def test_every_width_of_number_is_taken(kind):
    assert one("count", pd.Series([3, 4], dtype=kind)).frame["count"].tolist() == [3, 4]
    assert one("amount", pd.Series([3, 4], dtype=kind)).frame["amount"].tolist() == [3.0, 4.0]


def test_a_whole_number_beyond_64_bits_is_wrong():
    assert one("count", pd.Series([2**63, 1], dtype="uint64")).wrong["count"].tolist() == [True, False]


def test_every_column_gets_its_type():
    result = one("name", pd.Categorical(["a", "b"]))
    kinds = {name: str(dtype) for name, dtype in result.frame.dtypes.items()}
    expected = {"name": "str", "count": "Int64", "amount": "float64", "when": "datetime64[us, UTC]", "more": "float64"}
    assert kinds == expected


def test_unknown_columns_are_kept_as_they_came():
    frame = pd.DataFrame({"name": ["a"], "count": [1], "amount": [1.0], "when": [None], "note": [{"any": 1}]})
    assert coerce(TABLE, frame).frame["note"].iloc[0] == {"any": 1}

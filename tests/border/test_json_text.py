"""JSON: what is too deep, too long or no text is told."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.border.bounds import Limits
from mfcp.border.json_text import depth, parse_json
from mfcp.errors import DataError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=25,
)


def nested(value):
    parts = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(nested, parts), default=0)


def expected(value):
    """Whole numbers beyond 64 bits as text."""
    if isinstance(value, dict):
        return {key: expected(own) for key, own in value.items()}
    if isinstance(value, list):
        return [*map(expected, value)]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


@settings(max_examples=300)
@given(VALUES, st.booleans())
def test_what_json_writes_is_read(value, ascii):
    content = json.dumps(value, ensure_ascii=ascii).encode()
    assert depth(content) == nested(value)
    assert parse_json(content, "a", Limits()) == expected(value)


@settings(max_examples=300)
@given(st.text(alphabet='{}[]",:0-9eE.\\ud8nullt ', max_size=60).map(str.encode) | st.binary(max_size=40))
def test_no_text_gives_anything_but_a_value_or_a_data_error(content):
    with suppress(DataError):
        parse_json(content, "a", Limits())


@pytest.mark.parametrize(
    "content",
    [b'{"a": "\\ud800"}', b'{"\\ud800": 1}', b'["\\udfff\\ud800"]', b"\xed\xa0\x80", b'"\xff"', b"[1e", b"{}{}", b""],
)
def test_what_is_no_text_is_refused(content):
    with pytest.raises(DataError, match="a: not valid JSON"):
        parse_json(content, "a", Limits())


def test_pairs_of_halves_are_a_character():
    assert parse_json(b'"\\ud83d\\ude00"', "a", Limits()) == "\N{GRINNING FACE}"


def test_brackets_in_text_have_no_depth():
    assert depth(b'["[[[[\\"[[", {"a": "}}"}]') == 2
    assert parse_json(json.dumps(["[" * 5000]).encode(), "a", Limits()) == ["[" * 5000]
    with pytest.raises(DataError, match="more than 3 deep"):
        parse_json(b"[[[[1]]]]", "a", Limits(depth=3))


def test_long_numbers_take_no_time():
    assert len(parse_json(b"1" * 1_000_000, "a", Limits())) == 1_000_000

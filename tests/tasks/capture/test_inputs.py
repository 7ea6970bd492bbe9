"""Inputs as text."""

import pytest

from mfcp.errors import SettingsError
from mfcp.tasks.capture.inputs import input_size, parse_input


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1x3x224x224", (None, (1, 3, 224, 224), "float32")),
        ("tokens=8x128:int64", ("tokens", (8, 128), "int64")),
        ("a=b=2:bool", ("a=b", (2,), "bool")),
    ],
)
def test_name_shape_and_type_are_read(text, expected):
    assert parse_input(text) == expected


@pytest.mark.parametrize("text", ["", "x", "0x3", "1x-2", "1x3:float8", "=1x3", "1x3:", "1,3"])
def test_any_other_text_is_refused_with_an_example(text):
    with pytest.raises(SettingsError, match=r"expected \[NAME=\]SIDES.*tokens=1x128:int64"):
        parse_input(text)


def test_the_size_is_an_images_side_or_the_tokens():
    assert input_size((8, 3, 224, 196)) == 196
    assert input_size((8, 128)) == 128
    assert input_size((8, 128, 64)) == 128
    assert input_size((8,)) is None

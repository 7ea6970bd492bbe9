"""A model's inputs as text, `[NAME=]1x3x224x224[:DTYPE]`: as commands take them. Imports nothing heavy."""

from __future__ import annotations

from mfcp.errors import SettingsError

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
Shape = tuple[int, ...]


def input_size(shape: Shape) -> int | None:
    """Pixels of an image's side (4 sides), else tokens."""
    return None if len(shape) < 2 else shape[-1] if len(shape) == 4 else shape[1]


def parse_input(text: str) -> tuple[str | None, Shape, str]:
    """Name, shape and data type of `[NAME=]1x3x224x224[:DTYPE]`.

    Raises:
        SettingsError: any other text.
    """
    name, equals, rest = text.rpartition("=")
    sides, colon, dtype = rest.partition(":")
    try:
        shape = tuple(int(side) for side in sides.split("x"))
    except ValueError:
        shape = (0,)
    if min(shape) < 1 or (colon and dtype not in DTYPES) or (equals and not name):
        raise SettingsError(
            f"--input {text}: expected [NAME=]SIDES[:DTYPE] with sides of at least 1, such as 1x3x224x224 or "
            f"tokens=1x128:int64; data types are {', '.join(DTYPES)}"
        )
    return name or None, shape, dtype or "float32"

"""Matrices of numbers that nobody vouches for: .npy files and CSV without header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mfcp.arrays import Floats
from mfcp.border.limits import limits
from mfcp.border.regular import opened, refusing

_MATRIX = "a numeric matrix"
_EXPECTED = "a matrix of numbers, .npy or CSV, cells parted by commas, without header"
_REMEDY = f"expected {_EXPECTED}"


def read_numbers(path: Path) -> Floats:
    """The numbers of a .npy or CSV file, in the shape of the file; a .npy is mapped into memory, not read.

    Raises:
        DataError: no such file, not numbers, rows of different lengths; names line and column.
    """
    bounds = limits()
    with opened(path, bounds.table_mib if path.suffix == ".npy" else bounds.text_mib, expected=_EXPECTED) as file:
        if path.suffix == ".npy":
            with refusing(path, _MATRIX, _REMEDY):
                mapped: Floats = _mapped(path, file.read(6))
                return mapped
        text = file.read()
    with refusing(path, _MATRIX, _REMEDY):
        return _parsed(text)


def _parsed(text: bytes) -> Floats:
    try:
        return np.loadtxt(text.decode("utf-8-sig").splitlines(), delimiter=",", ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(_first_wrong(text.decode("utf-8-sig", "replace")) or str(error)) from None


def _mapped(path: Path, begin: bytes) -> Any:
    # np.load would take an archive of arrays, or a pickle, by their first bytes.
    if begin != np.lib.format.MAGIC_PREFIX:
        raise ValueError("it does not begin as a .npy file does")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"its entries are {array.dtype}")
    return np.asarray(array)


def _first_wrong(text: str) -> str | None:
    """The first cell that is not a number, or the first line of another length."""
    width = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split(",")
        for column, cell in enumerate(cells, 1):
            try:
                float(cell)
            except ValueError:
                return f"line {number}, column {column}: '{cell.strip()[:40]}' is not a number"
        width = width or len(cells)
        if len(cells) != width:
            return f"line {number} has {len(cells)} values, the first has {width}"
    return None

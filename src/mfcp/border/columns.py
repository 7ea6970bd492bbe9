"""Names that strangers have chosen in columns of a terminal: of any length, in any script."""

from __future__ import annotations

from collections.abc import Iterable

WIDEST = 32  # cells of a column; a longer name reaches out of it, and its line alone is longer


def padded(text: str, width: int) -> str:
    """Text of a column of a terminal: spaces follow up to so many cells, of which some characters take two."""
    from rich.cells import cell_len

    return text + " " * max(0, width - cell_len(text))


def column_width(names: Iterable[str], least: int) -> int:
    """Cells of a column of names: as many as the longest has, but one of more than `WIDEST` reaches out of it."""
    from rich.cells import cell_len

    return max([least, *(min(cell_len(name), WIDEST) for name in names)])

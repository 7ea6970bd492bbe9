"""Tables for a terminal."""

from __future__ import annotations

from mfcp.progress import console

_EDGES, _GAP = 2, 2  # characters left and right of a table, and between its columns
_NAMES = 20  # of a name at least, before it folds


def print_table(titles: list[str], rows: list[list[str]]) -> None:
    """A table whose first column folds and whose others are numbers, which are never cut.

    Where the terminal is too narrow for all columns, those that are left follow as a table of their own.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    screen = console()
    room, names = screen.width - _EDGES, max(map(len, [titles[0], *(row[0] for row in rows)]))
    columns = list(zip(*rows, strict=True))[1:]
    widths = [_GAP + max(map(len, [title, *column])) for title, column in zip(titles[1:], columns, strict=True)]
    if names + _GAP + sum(widths) > room:  # titles wrap before names fold
        widths = [
            _GAP + max(map(len, [*title.split(), *column])) for title, column in zip(titles[1:], columns, strict=True)
        ]
    begin = 0
    while begin < len(widths):
        end = begin + 1
        while end < len(widths) and min(names, _NAMES) + _GAP + sum(widths[begin : end + 1]) <= room:
            end += 1
        table = Table(box=SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0))
        first = max(min(names, room - _GAP - sum(widths[begin:end])), 1)
        table.add_column(titles[0], overflow="fold", width=first)
        for title, width in zip(titles[begin + 1 : end + 1], widths[begin:end], strict=True):
            table.add_column(title, justify="right", width=width - _GAP)
        for row in rows:
            table.add_row(row[0], *row[begin + 1 : end + 1])
        screen.print(table)
        begin = end


def text_of(value: float) -> str:
    """A number with three digits where they say something, millions as `12.30 M`; `-` for none."""
    if value != value:
        return "-"
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.2f} M"
    return f"{value:.3f}" if abs(value) < 10 and value != round(value) else f"{value:,.0f}"

"""Tables for a terminal."""

from __future__ import annotations


def print_table(titles: list[str], rows: list[list[str]]) -> None:
    """A table whose first column folds and whose others are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*map(escape, titles), box=SIMPLE_HEAD, padding=(0, 1, 0, 0))  # [s] would be a style
    table.columns[0].overflow = "fold"
    table.columns[0].min_width = min(max(len(row[0]) for row in rows), 20)  # or what folds shrinks to nothing
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def text_of(value: float) -> str:
    """A number with three digits where they say something, millions as `12.30 M`; `-` for none."""
    if value != value:
        return "-"
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.2f} M"
    return f"{value:.3f}" if abs(value) < 10 and value != round(value) else f"{value:,.0f}"
